"""A lambda binds a number as a default."""
# expect: closure n 2 -> 3

import jax
import numpy as np

import coldstep

x = np.ones(3, np.float32)
for n in (2, 3):
    with coldstep.step():
        coldstep.wait(jax.jit(lambda x, n=n: x * n)(x))
