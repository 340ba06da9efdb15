"""`jax.clear_caches()` between two epochs."""
# expect: cache_cleared - "generation 1" -> "generation 2"
# settles: 1

import jax
import numpy as np

import coldstep


@jax.jit
def step(x):
    return x * 2


x = np.ones(3, np.float32)
for n in range(6):
    if n == 4:
        jax.clear_caches()
    with coldstep.step():
        coldstep.wait(step(x))
