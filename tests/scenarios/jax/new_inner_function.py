"""A function that jits its own inner function at every call."""
# expect: new_function - "inner #1" -> "inner #2"

import jax
import numpy as np

import coldstep


def evaluate(x):
    @jax.jit
    def inner(x):
        return x.mean()

    return inner(x)


x = np.ones(3, np.float32)
for _ in range(2):
    with coldstep.step():
        coldstep.wait(evaluate(x))
