"""An input moves from one device to the other, pinned to both."""
# expect: device x "f32[3] committed" -> "f32[3] @cpu:1 committed"

import jax
import jax.numpy as jnp

import coldstep


@jax.jit
def step(x):
    return x.sum()


x = jnp.ones(3)

for at in (0, 0, 0, 1, 0):
    with coldstep.step():
        coldstep.wait(step(jax.device_put(x, jax.devices()[at])))
