"""Pick growing sets of features from a vector with a jitted gather, as in greedy feature selection."""

import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def gather_score(vec, indices):
    picked = vec[indices]
    return jnp.sum(picked * jnp.cos(picked))


def as_indices(chosen):
    return np.array(chosen, dtype=np.int32)


vec = jnp.concatenate([jnp.linspace(0.1, 1.0, 20), jnp.zeros(1)])
chosen = []
for step in range(8):
    chosen.append((7 * step) % 20)
    print("value", repr(float(gather_score(vec, as_indices(chosen)))))
# /// thread
# address = "https://github.com/jax-ml/jax/issues/15761"
# asked = "One run should be enough to compile, but the jitted gather is slow again at several later calls."
# answer = "jit compiles once for each shape of its arguments; keep the index array at one length."
# stack = "jax"
# mechanism = "shape"
# argument = "indices"
# before = "int32[1]"
# after = "int32[2]"
# line = 22
# lines_accepted = [8, 9, 15, 21]
# compiles = [8, 1]
# counted = "compiles of jit(gather_score) in JAX_LOG_COMPILES"
# cure = "Pad the indices to a fixed length with an index whose entry is zero (20 here) in as_indices."
# cure_lines = [{line = 15, code = "    return np.array(chosen + [20] * (8 - len(chosen)), dtype=np.int32)"}]
# cure_environment = {}
# losses = "equal"
# ///
