"""A keyword argument that only `**rest` takes appears."""
# expect: keyword rest['y'] - -> f32[3]

import jax
import numpy as np

import coldstep


@jax.jit
def total(**rest):
    return sum(x.sum() for x in rest.values())


x = np.ones(3, np.float32)

for names in ("x", "x", "xy"):
    with coldstep.step():
        coldstep.wait(total(**dict.fromkeys(names, x)))
