"""A jitted function goes over the elements of an array that it is given, one turn for each."""

import jax
import jax.numpy as jnp


def rotated(state: jax.Array, angle: jax.Array) -> jax.Array:
    turned = jnp.cos(angle) * state + jnp.sin(angle) * state[::-1]
    return turned / jnp.sqrt(jnp.sum(turned**2))


@jax.jit
def circuit(state: jax.Array, angles: jax.Array) -> jax.Array:
    for angle in angles:
        state = rotated(state, angle)
    return state.sum()


for n in range(3):
    print("loss", round(float(circuit(jnp.ones(4) + n, jnp.linspace(0.0, 1.0, 60))), 4))
