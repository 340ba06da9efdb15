"""Warm a token substitution up for a server in 64-bit mode, then fill placeholders of running requests in."""

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)

size = 16


@jax.jit
def substitute(tokens, positions, new_tokens):
    return tokens.at[positions].set(new_tokens, mode="drop")


def warm_up():
    zeros = jnp.zeros(size, jnp.int32)
    substitute(zeros, jnp.zeros(4, jnp.int32), jnp.zeros(4, jnp.int32))


def placeholders(tokens):
    positions = np.flatnonzero(np.asarray(tokens) < 0)
    return np.pad(positions, (0, 4 - len(positions)), constant_values=size)


warm_up()
tokens = jnp.arange(size, dtype=jnp.int32)
for step in range(3):
    tokens = tokens.at[jnp.array([step, step + 5])].set(-1)
    positions = placeholders(tokens)
    tokens = substitute(tokens, positions, np.full(4, 100 + step, np.int32))
    print("value", repr(float(tokens.sum())))
# /// thread
# address = "https://github.com/vllm-project/tpu-inference/pull/2049"
# asked = """\
# The server compiles the substitution of placeholder tokens at run time, where compiling is forbidden, though it \
# was precompiled."""
# answer = """\
# NumPy makes int64 indices by default while the precompiled call had int32, which are distinct types in JAX's \
# cache; force the index arrays to np.int32."""
# stack = "jax"
# mechanism = "dtype"
# argument = "positions"
# before = "int32[4]"
# after = "int64[4]"
# line = 32
# lines_accepted = [13, 19, 23, 24, 31]
# compiles = [2, 1]
# counted = "XLA compiles of jit(substitute)"
# cure = "Make the indices int32 where they are computed."
# cure_lines = [
#   {line = 23, code = "    positions = np.flatnonzero(np.asarray(tokens) < 0).astype(np.int32)"},
# ]
# cure_environment = {}
# losses = "equal"
# ///
