"""A model of Flax NNX that is made operation by operation, from random numbers that are made outside."""

import jax.numpy as jnp
import numpy as np
from flax import nnx


class Block(nnx.Module):
    def __init__(self, width, rngs):
        self.norm = nnx.LayerNorm(width, rngs=rngs)
        self.up = nnx.Linear(width, 2 * width, rngs=rngs)
        self.down = nnx.Linear(2 * width, width, rngs=rngs)

    def __call__(self, x):
        return x + self.down(nnx.gelu(self.up(self.norm(x))))


class Net(nnx.Module):
    def __init__(self, width, depth, rngs):
        self.blocks = nnx.List([Block(width, rngs) for _ in range(depth)])


@nnx.jit
def energy(model, x):
    for block in model.blocks:
        x = block(x)
    return jnp.mean(x**2)


rngs = nnx.Rngs(0)
model = Net(
    width=8,
    depth=2,
    rngs=rngs,
)
print("loss", round(float(energy(model, np.ones((2, 8), np.float32))), 3))
