"""A jitted loss whose gradient nobody jitted, and a jitted update: each call of the gradient runs through Python."""

import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def loss_of(w, x):
    return jnp.mean((jnp.tanh(x @ w["in"]) @ w["out"]) ** 2)


@jax.jit
def updated(w, g):
    return jax.tree.map(lambda a, b: a - 0.125 * b, w, g)


loss_and_gradient = jax.value_and_grad(loss_of)


def main():
    w = {
        "in": jax.device_put(np.full((4, 8), 0.5, np.float32)),
        "out": jax.device_put(np.full((8, 2), 0.25, np.float32)),
    }
    x = jax.device_put(np.ones((16, 4), np.float32))
    gradient = loss_and_gradient
    for _ in range(20):
        loss, g = gradient(w, x)
        w = updated(w, g)
    print("loss", round(float(loss), 3))


main()
