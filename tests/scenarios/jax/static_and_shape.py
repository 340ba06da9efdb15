"""A static argument changes together with a shape."""
# expect: static_argument n 2 -> 3

import functools

import jax
import numpy as np

import coldstep


@functools.partial(jax.jit, static_argnames="n")
def power(x, n):
    return x**n


for n, size in ((2, 8), (2, 8), (3, 5)):
    with coldstep.step():
        coldstep.wait(power(np.ones(size, np.float32), n=n))
