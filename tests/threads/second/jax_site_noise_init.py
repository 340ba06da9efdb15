"""Make the starting parameters of many sites of one model, each from its own random key, in one jitted function."""

import jax
import jax.numpy as jnp

sites = 24
width = 8


@jax.jit
def init_sources(key):
    keys = jax.random.split(key, sites)
    noise = [jax.random.normal(keys[site], (width,)) for site in range(sites)]
    return jnp.stack(noise)


@jax.jit
def energy(sources, batch):
    return jnp.mean((batch @ sources.T) ** 2)


sources = init_sources(jax.random.key(0))
for step in range(3):
    batch = jax.random.normal(jax.random.key(step + 1), (4, width))
    print("value", repr(float(energy(sources, batch))))
# /// thread
# address = "https://github.com/goodfire-ai/spd/pull/956"
# asked = "About twenty minutes pass before the first step."
# answer = """\
# Most of it is not the step's compile but that of the init functions, whose random bodies Python unrolls, one \
# for each site; generate them with vmap over the same keys, which gives the same values."""
# stack = "jax"
# mechanism = "unrolled"
# argument = "range(sites)"
# before = ""
# after = ""
# line = 13
# lines_accepted = [10, 11, 14, 22]
# compiles = [24, 1]
# counted = "calls of the random normal in the one program of init_sources (its jaxpr)"
# cure = "Draw all the sites' noise with jax.vmap over the keys."
# cure_lines = [
#   {line = 13, code = "    noise = jax.vmap(lambda site_key: jax.random.normal(site_key, (width,)))(keys)"},
#   {line = 14, code = "    return noise"},
# ]
# cure_environment = {}
# losses = "equal"
# ///
