"""No step is marked: calls of the function that trains are the steps, and the evaluation between them is none."""

import jax
import jax.numpy as jnp


def loss(w, x):
    return jnp.mean((jnp.tanh(x @ w) - 1) ** 2)


@jax.jit
def update(w, x):
    return w - 0.1 * jax.grad(loss)(w, x)


evaluate = jax.jit(loss)

w = jnp.ones((8, 8))
for rows in (4, 4, 5):
    for _ in range(4):
        w = update(w, jnp.ones((rows, 8)))
    for _ in range(2):
        evaluate(w, jnp.ones((4, 8)))
