"""Applies a dropout layer of Flax's NNX, jitted by itself, to one batch after the other."""

import jax
import jax.numpy as jnp
from flax import nnx

dropout = nnx.Dropout(0.5, rngs=nnx.Rngs(0))
x = jnp.linspace(0.0, 1.0, 12).reshape(3, 4)
apply = jax.jit(dropout)

for _ in range(3):
    kept = apply(x)
    print("value", repr(float(kept.sum())))
# /// thread
# address = "https://github.com/google/flax/issues/4539"
# asked = """\
# Jitting a dropout module yields a constant value (in Flax 0.12 it fails, because its counter is of another \
# trace level)."""
# answer = """\
# Jit a function that takes the module as an argument with nnx.jit, so that its state is passed in and out."""
# stack = "jax"
# mechanism = "failed_compile"
# argument = "dropout"
# before = ""
# after = ""
# line = 9
# lines_accepted = [7, 12]
# compiles = [0, 1]
# counted = "compiles of apply that succeed"
# cure = "Pass the module to a function under nnx.jit."
# cure_lines = [
#   {line = 9, code = "apply = nnx.jit(lambda module, x: module(x))"},
#   {line = 12, code = "    kept = apply(dropout, x)"},
# ]
# cure_environment = {}
# losses = "other"
# ///
