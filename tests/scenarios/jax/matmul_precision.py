"""The last step runs under another matmul precision."""
# expect: config jax_default_matmul_precision None -> 'highest'
# settles: 1

import jax
import numpy as np

import coldstep


@jax.jit
def step(x):
    return x @ x


x = np.ones((4, 4), np.float32)
for precision in (None, None, None, None, "highest"):
    with coldstep.step(), jax.default_matmul_precision(precision):
        coldstep.wait(step(x))
