"""vmap, scan and grad inside; the batch differs."""
# expect: shape xs f32[8,3] -> f32[5,3]

import jax
import numpy as np

import coldstep


@jax.jit
def train_step(w, xs):
    def loss(w, x):
        return jax.lax.scan(lambda carry, v: (carry * v, None), w, x)[0]

    return jax.vmap(jax.grad(loss), in_axes=(None, 0))(w, xs).sum()


for size in (8, 8, 5):
    with coldstep.step():
        coldstep.wait(train_step(np.float32(2), np.ones((size, 3), np.float32)))
