"""What settles at once: strong initial values, everything pinned together."""
# expect: nothing
# settles: 1

import jax
import jax.numpy as jnp
import optax

import coldstep

tx = optax.adam(1e-3)


@jax.jit
def train_step(params, state, loss):
    updates, state = tx.update(jax.tree.map(jnp.ones_like, params), state)
    return optax.apply_updates(params, updates), state, loss * 0.9


params = {"w": jnp.ones((4, 2))}
carry = jax.device_put((params, tx.init(params), jnp.zeros(())), jax.devices()[0])
for _ in range(5):
    with coldstep.step():
        carry = coldstep.wait(train_step(*carry))
