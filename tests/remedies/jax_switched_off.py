"""Jitted functions run operation by operation, since somebody looked into one of them."""

import jax
import jax.numpy as jnp

jax.config.update("jax_disable_jit", True)


@jax.jit
def step(w, x):
    return w - 0.125 * jnp.tanh(w * x) - 0.25 * jnp.square(w), jnp.sum(jnp.abs(w))


w = jnp.linspace(0.1, 0.9, 4)
for _ in range(5):
    w, loss = step(w, 2.0)
    print("loss", round(float(loss), 4))
