"""Averages windows of a series that begin at given places, in a jitted function."""

import jax
import jax.numpy as jnp

series = jnp.sin(jnp.arange(100.0) / 7.0)
size = 8


@jax.jit
def window_mean(series, start):
    window = series[start : start + size]
    return jnp.mean(window)


for start in (0, 20, 45, 80):
    print("value", repr(float(window_mean(series, start))))
# /// thread
# address = "https://github.com/jax-ml/jax/pull/39508"
# asked = "A slice whose bounds are traced fails, and its message names no way out."
# answer = """\
# Slices must be static; use x[jax.ds(start, size)] or lax.dynamic_slice, as the new message suggests."""
# stack = "jax"
# mechanism = "failed_compile"
# argument = "series[start : start + size]"
# before = ""
# after = ""
# line = 12
# lines_accepted = [11]
# compiles = [0, 1]
# counted = "compiles of window_mean that succeed"
# cure = "Slice with jax.lax.dynamic_slice."
# cure_lines = [
#   {line = 12, code = "    window = jax.lax.dynamic_slice(series, (start,), (size,))"},
# ]
# cure_environment = {}
# losses = "other"
# ///
