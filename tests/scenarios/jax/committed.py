"""Only the last batch is pinned to its device: lowered and compiled again, without a trace event."""
# expect: committed x f32[3] -> "f32[3] committed"
# settles: 1

import jax
import jax.numpy as jnp

import coldstep


@jax.jit
def step(w, x):
    return (w * x).sum()


w, x = jnp.ones(3), jnp.ones(3)
for n in range(5):
    if n == 4:
        x = jax.device_put(x, jax.devices()[0])
    with coldstep.step():
        coldstep.wait(step(w, x))
