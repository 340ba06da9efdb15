"""A method is jitted again because an attribute that it reads has changed."""
# expect: module_attribute self.scale 2.0 -> 3.0

import jax
import numpy as np

import coldstep


class Model:
    def __init__(self):
        self.scale, self.calls = 2.0, 0

    def step(self, x):
        return x * self.scale


model, x = Model(), np.ones(3, np.float32)
for scale in (2.0, 3.0):
    model.scale, model.calls = scale, model.calls + 1
    with coldstep.step():
        coldstep.wait(jax.jit(model.step)(x))
