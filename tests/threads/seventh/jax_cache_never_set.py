"""Runs the column physics of a climate model twice, as a benchmark does, each time in a process of its own."""

import os
import subprocess
import sys

if "RUN" not in os.environ:
    for run in ("first", "second"):
        subprocess.run([sys.executable, __file__], env={**os.environ, "RUN": run}, check=True)
    sys.exit()

import jax
import jax.numpy as jnp

LEVELS = 24


@jax.jit
def physics_step(temperature, moisture):
    saturation = jnp.exp(17.0 * (temperature - 273.0) / (temperature - 36.0))
    rain = jax.nn.relu(moisture - saturation)
    for level in range(1, LEVELS):
        flux = 0.1 * jnp.tanh(temperature[level] - temperature[level - 1])
        temperature = temperature.at[level].add(-flux).at[level - 1].add(flux)
    return temperature + 2.5 * rain, moisture - rain


temperature = jnp.linspace(220.0, 300.0, LEVELS)
moisture = jnp.linspace(0.1, 4.0, LEVELS)
for _ in range(3):
    temperature, moisture = physics_step(temperature, moisture)
    print("value", repr(float(temperature.mean())))
# /// thread
# address = "https://github.com/climate-analytics-lab/jax-gcm/issues/592"
# asked = "167 minutes of a benchmark session are compiles, of configurations that had been compiled before."
# answer = """\
# jax_compilation_cache_dir is None: the persistent cache is there and not configured, so each run compiles \
# from scratch. Set it (and store all)."""
# stack = "jax"
# mechanism = "cache_miss"
# argument = "jax_compilation_cache_dir"
# before = ""
# after = ""
# line = 31
# lines_accepted = [9, 19]
# compiles = [2, 1]
# counted = "XLA compiles of physics_step in both processes (with the cure the second reads the cache)"
# cure = "Set JAX_COMPILATION_CACHE_DIR."
# cure_lines = []
# cure_environment = {JAX_COMPILATION_CACHE_DIR = "jax-cache", JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS = "0"}
# losses = "equal"
# ///
