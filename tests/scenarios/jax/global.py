"""A new lambda reads a global that has changed."""
# expect: global RATE 0.1 -> 0.2

import jax
import numpy as np

import coldstep

x = np.ones(3, np.float32)
for RATE in (0.1, 0.2):
    with coldstep.step():
        coldstep.wait(jax.jit(lambda x: x * RATE)(x))  # noqa: B023
