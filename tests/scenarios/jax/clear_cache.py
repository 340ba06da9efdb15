"""`step.clear_cache()`, twice."""
# expect: cache_cleared - "generation 1" -> "generation 2"
# expect: cache_cleared - "generation 2" -> "generation 3"

import jax
import numpy as np

import coldstep


@jax.jit
def step(x):
    return x * 2


x = np.ones(3, np.float32)
for _ in range(3):
    with coldstep.step():
        coldstep.wait(step(x))
    step.clear_cache()
