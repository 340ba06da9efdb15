"""The batch is pinned to a device, the parameters are not, until they come back."""
# expect: committed params['b'] f32[2] -> "f32[2] committed"
# settles: 2
# settling: committed
# pattern: fed_back_output

import jax
import jax.numpy as jnp

import coldstep


@jax.jit
def train_step(params, x):
    grads = jax.grad(lambda p: (x @ p["w"] + p["b"]).sum())(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)


params = {"b": jnp.zeros(2), "w": jnp.ones((4, 2))}
for _ in range(5):
    x = jax.device_put(jnp.ones((8, 4)), jax.devices()[0])
    with coldstep.step():
        params = coldstep.wait(train_step(params, x))
