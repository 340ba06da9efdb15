"""The number sits in the closure of a function that the jitted one calls."""
# expect: closure rate 0.1 -> 0.2

import jax
import numpy as np

import coldstep


def make(rate):
    def update(p):
        return p - rate * p

    return jax.jit(lambda params: jax.tree.map(update, params))


params = {"w": np.ones(3, np.float32)}
for rate in (0.1, 0.2):
    with coldstep.step():
        coldstep.wait(make(rate)(params))
