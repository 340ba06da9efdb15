"""Two arguments differ at once: the report lists both."""
# expect: shape x f32[8] -> f32[5]

import jax
import numpy as np

import coldstep


@jax.jit
def step(x, y):
    return x.sum() + y


step_inputs = [(np.ones(8, np.float32), np.float32(1))] * 3 + [(np.ones(5, np.float32), np.int32(1))]

for x, y in step_inputs:
    with coldstep.step():
        coldstep.wait(step(x, y))
