"""Shrinks weights by a rate that a schedule gives, in a function that Equinox jits."""

import equinox as eqx
import jax.numpy as jnp


@eqx.filter_jit
def shrink(weights, rate):
    return jnp.sign(weights) * jnp.maximum(jnp.abs(weights) - rate, 0.0)


weights = jnp.linspace(-1.0, 1.0, 9)
for step in range(6):
    weights = shrink(weights, 0.1 * 0.8**step)
    print("value", repr(float(jnp.abs(weights).sum())))
# /// thread
# address = "https://github.com/patrick-kidger/equinox/issues/645"
# asked = "A function under eqx.filter_jit compiles in every iteration, under jax.jit once."
# answer = """\
# filter_jit traces arrays and treats everything else as static, Python floats too; jax.jit makes arrays of \
# them. Pass arrays."""
# stack = "jax"
# mechanism = "static_argument"
# argument = "rate"
# before = "0.1"
# after = "0.08"
# line = 14
# lines_accepted = [7, 8]
# compiles = [6, 1]
# counted = "compiles of shrink (jax_log_compiles)"
# cure = "Make the rate an array."
# cure_lines = [
#   {line = 14, code = "    weights = shrink(weights, jnp.asarray(0.1 * 0.8**step))"},
# ]
# cure_environment = {}
# losses = "close"
# ///
