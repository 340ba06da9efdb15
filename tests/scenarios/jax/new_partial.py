"""The same partial is made anew at every step."""
# expect: new_function - "net #1" -> "net #2"

import functools

import jax
import numpy as np

import coldstep


def net(x, n):
    return x * n


x = np.ones(3, np.float32)
for _ in range(2):
    with coldstep.step():
        coldstep.wait(jax.jit(functools.partial(net, n=2))(x))
