"""A mask is left out of the last batch."""
# expect: type mask f32[3] -> None
# settles: 1

import jax
import numpy as np

import coldstep


@jax.jit
def loss(x, mask):
    return x.sum() if mask is None else (x * mask).sum()


ones = np.ones(3, np.float32)

for mask in (ones, ones, ones, ones, None):
    with coldstep.step():
        coldstep.wait(loss(ones, mask))
