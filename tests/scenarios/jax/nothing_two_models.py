"""Two objects of one class, each with its jitted method."""
# expect: nothing

import jax
import numpy as np

import coldstep


class Model:
    def __init__(self, scale):
        self.scale = scale

    def step(self, x):
        return x * self.scale


models = [Model(2.0), Model(3.0)]
steps = [jax.jit(model.step) for model in models]
for _ in range(3):
    for step in steps:
        with coldstep.step():
            coldstep.wait(step(np.ones(3, np.float32)))
