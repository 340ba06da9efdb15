"""A global changes that a jitted function has read, and the program does not see it."""
# expect: nothing
# finding: stale_capture

import jax
import numpy as np

scale = 2.0


@jax.jit
def step(x):
    return x * scale


for value in (2.0, 3.0):
    scale = value
    step(np.ones(3, np.float32)).block_until_ready()
