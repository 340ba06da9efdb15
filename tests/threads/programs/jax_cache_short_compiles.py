"""Start the same small training job twice with one compilation cache directory, as a restarted worker would."""

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

x = jnp.linspace(-1.0, 1.0, 32).reshape(8, 4)
y = jnp.sum(x**2, axis=1)


@jax.jit
def train_step(w):
    loss, grad = jax.value_and_grad(lambda w: jnp.mean((jnp.tanh(x @ w) - y) ** 2))(w)
    return w - 0.1 * grad, loss


w = jnp.ones(4)
for _ in range(3):
    w, loss = train_step(w)
    print("loss", repr(float(loss)))
# /// thread
# address = "https://github.com/jax-ml/jax/issues/21908"
# asked = "jax_compilation_cache_dir is set as the documentation says, but the directory stays empty and nothing hits."
# answer = "Only compiles longer than jax_persistent_cache_min_compile_time_secs (1 s) are stored; set it to 0."
# stack = "jax"
# mechanism = "cache_miss"
# argument = "jax_persistent_cache_min_compile_time_secs"
# before = ""
# after = ""
# line = 17
# lines_accepted = [11, 23, 24, 31]
# compiles = [2, 1]
# counted = "XLA compiles of jit(train_step) in both processes (with the cure the second reads the cache)"
# cure = "Set the time limit for storing to 0, here by the environment variable."
# cure_lines = []
# cure_environment = {JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS = "0"}
# losses = "equal"
# ///
