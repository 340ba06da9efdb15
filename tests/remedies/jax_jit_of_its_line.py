"""A function that is jitted anew in the line that calls it."""

import jax
import jax.numpy as jnp


def loss(w, x):
    return ((x @ w) ** 2).mean()


w = jnp.ones(4)
x = jnp.ones((8, 4))
for _ in range(6):
    g = jax.jit(jax.grad(loss))(w, x)
    w = w - 0.1 * g
    print("loss", float(w.sum()))
