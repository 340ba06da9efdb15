"""A static argument gets another value."""
# expect: static_argument n 2 -> 3
# settles: 1

import functools

import jax
import numpy as np

import coldstep


@functools.partial(jax.jit, static_argnames="n")
def power(x, n):
    return x**n


x = np.ones(3, np.float32)

for n in (2, 2, 2, 2, 3):
    with coldstep.step():
        coldstep.wait(power(x, n=n))
