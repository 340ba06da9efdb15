"""A step of which nothing is jitted."""

import jax
import jax.numpy as jnp
import numpy as np


def loss_of(w, x):
    hidden = jnp.tanh(x @ w["in"]) * 0.5
    return jnp.mean((hidden @ w["out"]) ** 2)


def step(w, x):
    loss, g = jax.value_and_grad(loss_of)(w, x)
    return jax.tree.map(lambda a, b: a - 0.125 * b, w, g), loss


w = {"in": jax.device_put(np.full((4, 8), 0.5, np.float32)), "out": jax.device_put(np.full((8, 2), 0.25, np.float32))}
x = jax.device_put(np.ones((16, 4), np.float32))
for _ in range(5):
    w, loss = step(w, x)
print("loss", round(float(loss), 3))
