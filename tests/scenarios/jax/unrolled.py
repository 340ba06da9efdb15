"""A Python loop over time steps is a part of the program as often as it turns."""
# expect: nothing
# finding: unrolled

import jax
import jax.numpy as jnp

import coldstep


@jax.jit
def rollout(state, action):
    total = 0.0
    for t in range(40):
        state = jnp.tanh(state @ action) + 0.1 * t
        total = total + jnp.sin(state).sum() * jnp.cos(state).mean()
    return total


for n in range(4):
    with coldstep.step():
        coldstep.wait(rollout(jnp.ones((4, 4)), jnp.full((4, 4), float(n))))
