"""The loader hands out a tuple where it handed out a list."""
# expect: pytree batch['views'] "list of 2" -> "tuple of 2"
# settles: 1

import jax
import numpy as np

import coldstep


@jax.jit
def loss(batch):
    left, right = batch["views"]
    return (left - right).sum()


ones = np.ones(3, np.float32)

for kind in (list, list, list, list, tuple):
    with coldstep.step():
        coldstep.wait(loss({"views": kind((ones, ones))}))
