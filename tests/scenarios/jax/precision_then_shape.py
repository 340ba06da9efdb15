"""One call under another precision, then another shape: the shape is the cause, not the precision."""
# expect: config jax_default_matmul_precision None -> 'highest'
# expect: shape x f32[8,4] -> f32[5,4]

import jax
import numpy as np

import coldstep


@jax.jit
def step(x):
    return x @ x.T


for size, precision in ((8, None), (8, "highest"), (5, None)):
    with coldstep.step(), jax.default_matmul_precision(precision):
        coldstep.wait(step(np.ones((size, 4), np.float32)))
