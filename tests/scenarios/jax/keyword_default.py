"""A default is passed explicitly the last time."""
# expect: keyword scale - -> "f32[] weak"
# settles: 1

import jax
import numpy as np

import coldstep


@jax.jit
def forward(x, scale=2.0):
    return x * scale


x = np.ones(3, np.float32)
for n in range(5):
    with coldstep.step():
        coldstep.wait(forward(x) if n < 4 else forward(x, 2.0))
