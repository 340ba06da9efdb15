"""A function of any number of arguments gets one more."""
# expect: pytree xs "tuple of 2" -> "tuple of 3"

import jax
import numpy as np

import coldstep


@jax.jit
def total(*xs):
    return sum(x.sum() for x in xs)


x = np.ones(3, np.float32)

for n in (2, 2, 3):
    with coldstep.step():
        coldstep.wait(total(*[x] * n))
