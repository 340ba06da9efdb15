"""`lower().compile()` for another shape."""
# expect: shape x f32[8] -> f32[5]

import jax
import numpy as np

import coldstep


@jax.jit
def step(x):
    return x * 2


for size in (8, 5):
    x = np.ones(size, np.float32)
    with coldstep.step():
        coldstep.wait(step.lower(x).compile()(x))
