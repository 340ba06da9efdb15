"""Scores batches of candidate models with a likelihood that is mapped over the candidates."""

import jax
import jax.numpy as jnp

times = jnp.linspace(0.0, 1.0, 50)
data = jnp.sin(9.0 * times)


def log_likelihood(parameters):
    model = parameters[0] * jnp.sin(parameters[1] * times + parameters[2])
    return -0.5 * jnp.sum((data - model) ** 2)


fitness = jax.vmap(jax.jit(log_likelihood))

for batch in range(40):
    candidates = jax.random.normal(jax.random.key(batch), (16, 3)) + jnp.array([1.0, 9.0, 0.0])
    best = fitness(candidates).max()
print("value", repr(float(best)))
# /// thread
# address = "https://github.com/PyAutoLabs/PyAutoFit/issues/1636"
# asked = "A vmap of a jitted likelihood goes through Python's batching trace at every call."
# answer = """\
# A vmap has no cache of its own; put the jit outside: jax.jit(jax.vmap(call)), so that the batch is one cached \
# executable."""
# stack = "jax"
# mechanism = "fast_path_miss"
# argument = "jax.vmap(jax.jit(log_likelihood))"
# before = ""
# after = ""
# line = 15
# lines_accepted = [19]
# compiles = [40, 1]
# counted = """\
# calls that trace the batching of log_likelihood (a call takes milliseconds, with the cure microseconds)"""
# cure = "Jit the vmap."
# cure_lines = [
#   {line = 15, code = "fitness = jax.jit(jax.vmap(log_likelihood))"},
# ]
# cure_environment = {}
# losses = "close"
# ///
