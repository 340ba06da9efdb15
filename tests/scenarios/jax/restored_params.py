"""Restored parameters are pinned; the optimizer's fresh step count is not."""
# expect: committed state[0].count i32[] -> "i32[] committed"
# settles: 2
# settling: committed

import jax
import jax.numpy as jnp
import optax

import coldstep

tx = optax.adam(1e-3)


@jax.jit
def train_step(params, state):
    updates, state = tx.update(jax.tree.map(jnp.ones_like, params), state)
    return optax.apply_updates(params, updates), state


params = jax.device_put({"w": jnp.ones((4, 2))}, jax.devices()[0])
state = tx.init(params)
for _ in range(5):
    with coldstep.step():
        params, state = coldstep.wait(train_step(params, state))
