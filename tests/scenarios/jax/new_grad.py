"""The gradient of one loss is taken and jitted anew at every step."""
# expect: new_function - "loss #1" -> "loss #2"

import jax
import numpy as np

import coldstep


def loss(w, x):
    return (w * x).sum()


w, x = np.float32(2), np.ones(3, np.float32)
for _ in range(2):
    with coldstep.step():
        coldstep.wait(jax.jit(jax.grad(loss))(w, x))
