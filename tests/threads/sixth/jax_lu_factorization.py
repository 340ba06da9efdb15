"""Factorizes a matrix by elimination, jitted."""

import time

import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def lu(a):
    upper = a
    rows, columns = upper.shape
    lower = jnp.eye(columns)
    for k in range(rows - 1):
        for j in range(k + 1, columns):
            lower = lower.at[j, k].set(upper[j, k] / upper[k, k])
            upper = upper.at[j, k:columns].add(-lower[j, k] * upper[k, k:columns])
    return lower, upper


rng = np.random.default_rng(0)
for _ in range(4):
    a = jnp.asarray(rng.random((14, 14)) + 14.0 * np.eye(14), dtype="float32")
    start = time.perf_counter()
    lower, upper = jax.block_until_ready(lu(a))
    print(f"{time.perf_counter() - start:.3f} s")
    print("value", repr(float(jnp.trace(upper))))
# /// thread
# address = "https://github.com/jax-ml/jax/issues/2242"
# asked = "A jitted LU factorization of 30 by 30 takes 30 seconds at its first call. What is wrong?"
# answer = """\
# JAX is slow to compile large Python for loops: tracing does not see the loop, only each turn of it. Use \
# lax.scan or lax.fori_loop (or jax.scipy's)."""
# stack = "jax"
# mechanism = "unrolled"
# argument = "range(k + 1, columns)"
# before = ""
# after = ""
# line = 16
# lines_accepted = [10, 11, 15, 17, 18, 26]
# compiles = [1, 1]
# counted = "seconds of the first call: 5.0 to 0.2"
# cure = "Loop by lax.fori_loop, over rows at once."
# cure_lines = [
#   {line = 15, code = """
#     def eliminate(k, factors):
#         lower, upper = factors
#         ratio = jnp.where(jnp.arange(rows) > k, upper[:, k] / upper[k, k], 0.0)
#         return lower.at[:, k].add(ratio), upper - ratio[:, None] * upper[k]
# """},
#   {line = 16, code = "    lower, upper = jax.lax.fori_loop(0, rows - 1, eliminate, (lower, upper))"},
#   {line = 17, code = ""},
#   {line = 18, code = ""},
# ]
# cure_environment = {}
# losses = "close"
# ///
