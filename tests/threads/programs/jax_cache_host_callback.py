"""Integrate a toy climate model in a job that is started again and again with one compilation cache directory."""

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

messages = []


def model_step(state, _):
    jax.debug.callback(messages.append, "physics called")
    state = state + 0.05 * (jnp.roll(state, 1) - 2.0 * state + jnp.roll(state, -1))
    return state, state.max()


@jax.jit
def run_from_state(state):
    return jax.lax.scan(model_step, state, None, length=10)


state = jnp.zeros(16).at[5].set(1.0)
for _ in range(3):
    state, maxima = run_from_state(state)
    print("value", repr(float(maxima[-1])))
# /// thread
# address = "https://github.com/climate-analytics-lab/jax-gcm/pull/827"
# asked = "The model compiles in full at every start, although a compilation cache directory is set."
# answer = "JAX stores no program that has a host callback; take jax.debug.callback out of the traced step."
# stack = "jax"
# mechanism = "callback"
# argument = "jax.debug.callback(messages.append, \"physics called\")"
# before = ""
# after = ""
# line = 24
# lines_accepted = [17, 23, 29, 30, 31, 36]
# compiles = [2, 1]
# counted = "XLA compiles of jit(run_from_state) in both processes (with the cure the second reads the cache)"
# cure = "Delete the callback from model_step."
# cure_lines = [{line = 24, code = ""}]
# cure_environment = {}
# losses = "equal"
# ///
