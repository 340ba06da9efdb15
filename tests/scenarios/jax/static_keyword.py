"""A static argument moves from position to keyword."""
# expect: keyword n "by position" -> "by keyword"

import functools

import jax
import numpy as np

import coldstep


@functools.partial(jax.jit, static_argnames="n")
def power(x, n):
    return x**n


x = np.ones(3, np.float32)
for step in range(4):
    with coldstep.step():
        coldstep.wait(power(x, 2) if step < 3 else power(x, n=2))
