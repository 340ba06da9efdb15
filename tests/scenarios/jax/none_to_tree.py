"""Momentum is None until the first step has made it."""
# expect: type momentum None -> "{'b', 'w'}"
# settles: 2
# settling: type

import jax
import jax.numpy as jnp

import coldstep


@jax.jit
def train_step(params, momentum):
    if momentum is None:
        momentum = jax.tree.map(jnp.zeros_like, params)
    return jax.tree.map(lambda m, p: 0.9 * m + p, momentum, params)


params = {"b": jnp.zeros(2), "w": jnp.ones((4, 2))}
momentum = None
for _ in range(5):
    with coldstep.step():
        momentum = coldstep.wait(train_step(params, momentum))
