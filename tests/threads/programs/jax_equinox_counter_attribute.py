"""Fit a source model in Equinox that keeps count of its own updates."""

import equinox as eqx
import jax.numpy as jnp


class Source(eqx.Module):
    flux: jnp.ndarray
    updates: int


@eqx.filter_jit
def update(source, data):
    rate = 0.5 / (1.0 + source.updates)
    flux = source.flux + rate * (data - source.flux)
    return Source(flux, source.updates + 1)


data = jnp.linspace(0.0, 1.0, 5)
source = Source(jnp.zeros(5), 0)
for _ in range(6):
    source = update(source, data)
    print("value", repr(float(source.flux.sum())))
# /// thread
# address = "https://github.com/patrick-kidger/equinox/issues/1062"
# asked = "A fitting loop with filter_jit misses its cache at every step, even for very simple operations."
# answer = "An integer held by the module counts as static and changes at each step; hold it as an array."
# stack = "jax"
# mechanism = "static_argument"
# argument = "source.updates"
# before = "0"
# after = "1"
# line = 16
# lines_accepted = [9, 12, 13, 20, 22]
# compiles = [6, 1]
# counted = "compiles of jit(update) in JAX_LOG_COMPILES"
# cure = "Start the counter as an array: Source(jnp.zeros(5), jnp.asarray(0))."
# cure_lines = [{line = 20, code = "source = Source(jnp.zeros(5), jnp.asarray(0))"}]
# cure_environment = {}
# losses = "equal"
# ///
