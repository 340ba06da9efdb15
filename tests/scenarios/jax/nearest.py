"""Three shapes and two dtypes: each recompile is held against what is nearest to it."""
# expect: shape x f32[8] -> f32[6]
# expect: dtype x f32[8] -> i32[8]
# expect: shape x i32[8] -> i32[6]

import jax
import numpy as np

import coldstep


@jax.jit
def step(x):
    return x * 2


for x in (np.ones(8, np.float32), np.ones(6, np.float32), np.ones(8, np.int32), np.ones(6, np.int32)):
    with coldstep.step():
        coldstep.wait(step(x))
