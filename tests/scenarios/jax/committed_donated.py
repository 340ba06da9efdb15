"""The batch is pinned, the donated parameters are not, until they come back."""
# expect: committed w f32[4] -> "f32[4] committed"
# settles: 2
# settling: committed

import functools

import jax
import jax.numpy as jnp

import coldstep


@functools.partial(jax.jit, donate_argnums=0)
def step(w, x):
    return w + x


w = jnp.ones(4)
for _ in range(5):
    with coldstep.step():
        w = coldstep.wait(step(w, jax.device_put(jnp.ones(4), jax.devices()[0])))
