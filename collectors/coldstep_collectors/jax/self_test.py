"""Compiles by JAX: for the first time, for another shape, and out of the persistent cache."""
# mypy: ignore-errors

import os

import jax
import numpy as np

import coldstep

jax.config.update("jax_compilation_cache_dir", os.path.abspath("cache"))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


@jax.jit
def train_step(x):
    return (x * 2).sum()


for size in (8, 8, 5):
    with coldstep.step():
        coldstep.wait(train_step(np.ones(size, np.float32)))
jax.clear_caches()
with coldstep.step():
    coldstep.wait(train_step(np.ones(8, np.float32)))
