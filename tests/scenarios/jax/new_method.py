"""A bound method is jitted anew at every step."""
# expect: new_function - "step #1" -> "step #2"

import jax
import numpy as np

import coldstep


class Model:
    scale = 2.0

    def step(self, x):
        return x * self.scale


model, x = Model(), np.ones(3, np.float32)
for _ in range(2):
    with coldstep.step():
        coldstep.wait(jax.jit(model.step)(x))
