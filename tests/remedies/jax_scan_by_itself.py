"""A scan that runs outside of any jitted function, and is given another function in each call."""

import jax
import jax.numpy as jnp

rates = jnp.linspace(0.1, 1.0, 7)


def decayed(x):
    def turn(carry, rate):
        return carry * (1 - rate * x), carry

    return jax.lax.scan(turn, jnp.ones(4), rates)


for number in range(4):
    last, _ = decayed(jnp.full(4, 0.1 * number))
    print("loss", float(last.sum()))
