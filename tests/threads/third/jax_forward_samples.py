"""Draws predictions from posterior samples of a linear model, batch after batch, with a map over the samples."""

import jax
import jax.numpy as jnp

key = jax.random.key(0)
slopes = jax.random.normal(key, (20, 3))


def sample_forward(x):
    def trace_one_sample(slope):
        return jnp.tanh(x @ slope)

    return jax.lax.map(trace_one_sample, slopes)


for batch in range(5):
    x = jax.random.normal(jax.random.fold_in(key, batch), (8, 3))
    print("value", repr(float(sample_forward(x).mean())))
# /// thread
# address = "https://github.com/markean/aimz/issues/275"
# asked = "Every eager call of the forward sampler compiles again, and keeps the program for ever."
# answer = """\
# A new closure is passed to jax.lax.map at each call, so that nothing is found in the cache; outside of a trace \
# use jax.vmap."""
# stack = "jax"
# mechanism = "new_function"
# argument = "trace_one_sample"
# before = ""
# after = ""
# line = 14
# lines_accepted = [11, 12, 19]
# compiles = [5, 0]
# counted = "compiles of jit(scan)"
# cure = "Map with jax.vmap."
# cure_lines = [
#   {line = 14, code = "    return jax.vmap(trace_one_sample)(slopes)"},
# ]
# cure_environment = {}
# losses = "close"
# ///
