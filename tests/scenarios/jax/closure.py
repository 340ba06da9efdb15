"""A function closes over a number that differs every time."""
# expect: closure scale 1.0 -> 2.0
# expect: closure scale 2.0 -> 3.0

import jax
import numpy as np

import coldstep


def scaled(scale):
    return jax.jit(lambda x: x * scale)


x = np.ones(3, np.float32)
for scale in (1.0, 2.0, 3.0):
    with coldstep.step():
        coldstep.wait(scaled(scale)(x))
