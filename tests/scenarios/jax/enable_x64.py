"""64-bit mode for one step: what NumPy passes becomes float64, too."""
# expect: config jax_enable_x64 False -> True
# settles: 1

import jax
import numpy as np

import coldstep


@jax.jit
def step(x):
    return x * 2


x = np.ones(3)
for n in range(5):
    with coldstep.step(), jax.enable_x64(n == 4):
        coldstep.wait(step(x))
