"""The initial loss is a Python number: weakly typed, which what the step returns is not."""
# expect: weak_type total "f32[] weak" -> f32[]
# settles: 2
# settling: weak_type
# pattern: fed_back_output

import jax
import numpy as np

import coldstep


@jax.jit
def step(total, x):
    return total + x.sum()


total = 0.0
for _ in range(5):
    with coldstep.step():
        total = coldstep.wait(step(total, np.ones(3, np.float32)))
