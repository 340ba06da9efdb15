"""The last step runs under another default device."""
# expect: config jax_default_device cpu:0 -> cpu:1
# settles: 1

import jax
import numpy as np

import coldstep


@jax.jit
def step(x):
    return x.sum()


x = np.ones(3, np.float32)
for n in range(5):
    with coldstep.step(), jax.default_device(jax.devices()[n // 4]):
        coldstep.wait(step(x))
