"""Evaluate a sum of enabled force terms in a job that is started twice with one compilation cache directory."""

import os
import subprocess
import sys
import tempfile

if "JOB_CACHE" not in os.environ:
    with tempfile.TemporaryDirectory() as cache:
        for _ in range(2):
            subprocess.run([sys.executable, __file__], env={**os.environ, "JOB_CACHE": cache}, check=True)
    sys.exit()

import jax
import jax.numpy as jnp

jax.config.update("jax_compilation_cache_dir", os.environ["JOB_CACHE"])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)

strengths = {"wind": 1.0, "drag": 2.0, "lift": 4.0, "spring": 8.0, "motor": 0.5, "gravity": 0.25, "tide": 16.0}
enabled = set(strengths)


@jax.jit
def total_force(position):
    force = jnp.zeros_like(position)
    for name in enabled:
        force = force + strengths[name] * jnp.round(position * strengths[name])
    return force


position = jnp.arange(6.0)
for _ in range(3):
    position = position + jnp.sign(total_force(position))
    print("value", repr(float(total_force(position).sum())))
# /// thread
# address = "https://github.com/jax-ml/jax/issues/21236"
# asked = "The same program, run again, makes another cache entry each time and does not find the ones before."
# answer = "The program's order comes from a Python set of names, which differs in each process; sort the names."
# stack = "jax"
# mechanism = "cache_miss"
# argument = "enabled"
# before = ""
# after = ""
# line = 27
# lines_accepted = [21, 24, 25, 34, 35]
# compiles = [2, 1]
# counted = "XLA compiles of jit(total_force) in both processes (with the cure the second reads the cache)"
# cure = "Iterate the set in sorted order (or start all processes with one PYTHONHASHSEED)."
# cure_lines = [{line = 27, code = "    for name in sorted(enabled):"}]
# cure_environment = {}
# losses = "equal"
# ///
