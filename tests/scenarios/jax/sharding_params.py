"""The batch is spread over a mesh and the parameters are not, until they come back."""
# expect: sharding params['b'] f32[2] -> "f32[2] @P()/mesh(d=2:auto) committed"
# settles: 2
# settling: sharding

import jax
import jax.numpy as jnp

import coldstep


@jax.jit
def train_step(params, x):
    grads = jax.grad(lambda p: (x @ p["w"] + p["b"]).sum())(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)


mesh = jax.make_mesh((2,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
x = jax.device_put(jnp.ones((8, 4)), jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d")))
params = {"b": jnp.zeros(2), "w": jnp.ones((4, 2))}
for _ in range(5):
    with coldstep.step():
        params = coldstep.wait(train_step(params, x))
