"""A library's function, jitted for two shapes by the program."""
# expect: shape params['w'] f32[3] -> f32[4]

import jax
import numpy as np
import optax

import coldstep

init = jax.jit(optax.sgd(0.1, momentum=0.9).init)

for size in (3, 4):
    with coldstep.step():
        coldstep.wait(init({"w": np.ones(size, np.float32)}))
