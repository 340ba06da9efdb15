"""A static argument of a function under `jax.pmap` gets another value."""
# expect: static_argument n 2 -> 3

import functools

import jax
import numpy as np

import coldstep


@functools.partial(jax.pmap, static_broadcasted_argnums=1)
def scale(x, n):
    return x * n


for n in (2, 2, 3):
    with coldstep.step():
        coldstep.wait(scale(np.ones((2, 3), np.float32), n))
