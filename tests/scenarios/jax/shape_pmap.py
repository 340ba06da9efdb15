"""`jax.pmap` over both devices: the last batch is smaller."""
# expect: shape batch['x'] f32[2,4] -> f32[2,3]
# settles: 1

import jax
import numpy as np

import coldstep


@jax.pmap
def train_step(w, batch):
    return w - (batch["x"] ** 2).sum()


w = np.ones(2, np.float32)
for size in (4, 4, 4, 4, 3):
    with coldstep.step():
        coldstep.wait(train_step(w, batch={"x": np.ones((2, size), np.float32)}))
