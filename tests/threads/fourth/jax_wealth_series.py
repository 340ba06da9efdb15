"""Follows the wealth of households over many periods, in one jitted function."""

import functools

import jax
import jax.numpy as jnp


def update(wealth, key):
    income, returns = jax.random.normal(key, (2, *wealth.shape))
    return jnp.exp(0.1 * returns) * wealth * 0.9 + jnp.exp(0.2 * income)


@functools.partial(jax.jit, static_argnames="periods")
def series(wealth, key, periods):
    for _ in range(periods):
        key, subkey = jax.random.split(key)
        wealth = update(wealth, subkey)
    return wealth


for seed in range(3):
    print("value", repr(float(series(jnp.ones(50), jax.random.key(seed), 40).mean())))
# /// thread
# address = "https://github.com/QuantEcon/lecture-jax/issues/33"
# asked = "Very slow compile of the jitted wealth_time_series_for_loop_jax."
# answer = """\
# There isn't much benefit in compiling the outer loop, and the cost is slow compilation; remove the jit from \
# it."""
# stack = "jax"
# mechanism = "unrolled"
# argument = "range(periods)"
# before = ""
# after = ""
# line = 16
# lines_accepted = [14, 15, 23]
# compiles = [40, 1]
# counted = "copies of update in what is compiled"
# cure = "Jit the update, and not the loop."
# cure_lines = [
#   {line = 9, code = """
# @jax.jit
# def update(wealth, key):"""},
#   {line = 14, code = ""},
# ]
# cure_environment = {}
# losses = "close"
# ///
