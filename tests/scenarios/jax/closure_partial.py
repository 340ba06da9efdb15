"""A partial binds another number."""
# expect: closure n 2 -> 3

import functools

import jax
import numpy as np

import coldstep


def net(x, n):
    return x * n


x = np.ones(3, np.float32)
for n in (2, 3):
    with coldstep.step():
        coldstep.wait(jax.jit(functools.partial(net, n=n))(x))
