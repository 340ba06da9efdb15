"""A training step of which the loss alone is jitted: what updates the parameters runs one operation after the other."""

import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def loss_of(w, x):
    return jnp.mean((jnp.tanh(x @ w["in"]) @ w["out"]) ** 2)


def step(w, m, x):
    loss, g = jax.value_and_grad(loss_of)(w, x)
    m = jax.tree.map(lambda old, new: 0.875 * old + new**2, m, g)
    w = jax.tree.map(lambda a, b, c: a - 0.125 * b / (jnp.sqrt(c) + 1.0), w, g, m)
    return w, m, loss


w = {"in": jax.device_put(np.full((4, 8), 0.5, np.float32)), "out": jax.device_put(np.full((8, 2), 0.25, np.float32))}
m = {"in": jax.device_put(np.zeros((4, 8), np.float32)), "out": jax.device_put(np.zeros((8, 2), np.float32))}
x = jax.device_put(np.ones((16, 4), np.float32))
for _ in range(5):
    w, m, loss = step(w, m, x)
print("loss", round(float(loss), 3))
