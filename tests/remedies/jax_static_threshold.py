"""A number that a function compares with, and that is static."""

from functools import partial

import jax
import jax.numpy as jnp


@partial(jax.jit, static_argnames=("epsilon",))
def act(values, key, epsilon):
    return jnp.where(jax.random.uniform(key) < epsilon, 0, jnp.argmax(values))


values = jnp.arange(3.0)
for step in range(5):
    print("loss", int(act(values, jax.random.fold_in(jax.random.key(0), step), epsilon=1.0 - 0.2 * step)))
