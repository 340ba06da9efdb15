"""A training step of Flax NNX that nobody jitted: model and optimizer are changed in place."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx


class Net(nnx.Module):
    def __init__(self, rngs: nnx.Rngs):
        self.layers = nnx.List([nnx.Linear(4, 4, rngs=rngs) for _ in range(2)])
        self.out = nnx.Linear(4, 1, rngs=rngs)

    def __call__(self, x):
        for layer in self.layers:
            x = nnx.relu(layer(x))
        return self.out(x)


def mse(model, x, y):
    return jnp.mean((model(x) - y) ** 2)


def train(model, optimizer, x, y):
    loss, grads = nnx.value_and_grad(mse)(model, x, y)
    optimizer.update(model, grads)
    return loss


@nnx.jit
def prepared(rngs):
    model = Net(rngs)
    return model, nnx.Optimizer(model, optax.adam(0.01), wrt=nnx.Param)


model, optimizer = prepared(nnx.Rngs(0))
x = jax.device_put(np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4))
y = jax.device_put(np.ones((8, 1), np.float32))
for _ in range(5):
    loss = train(model, optimizer, x, y)
print("loss", round(float(loss), 3))
