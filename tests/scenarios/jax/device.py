"""An input of the last step lies on another device."""
# expect: device x f32[3] -> "f32[3] @cpu:1 committed"
# settles: 1

import jax
import jax.numpy as jnp

import coldstep


@jax.jit
def step(x):
    return x.sum()


x = jnp.ones(3)

for where in (x, x, x, x, jax.device_put(x, jax.devices()[1])):
    with coldstep.step():
        coldstep.wait(step(where))
