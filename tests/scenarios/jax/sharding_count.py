"""Model-sharded parameters, and Adam's step count beside the mesh."""
# expect: sharding state[0].count i32[] -> "i32[] @P()/mesh(m=2:auto) committed"
# settles: 2
# settling: sharding

import jax
import jax.numpy as jnp
import optax

import coldstep

tx = optax.adam(1e-3)


@jax.jit
def train_step(params, state):
    updates, state = tx.update(jax.tree.map(jnp.ones_like, params), state)
    return optax.apply_updates(params, updates), state


mesh = jax.make_mesh((2,), ("m",), axis_types=(jax.sharding.AxisType.Auto,))
params = jax.device_put({"w": jnp.ones((4, 2))}, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("m")))
state = tx.init(params)
for _ in range(5):
    with coldstep.step():
        params, state = coldstep.wait(train_step(params, state))
