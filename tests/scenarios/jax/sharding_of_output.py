"""A constraint in the step returns parameters that lie otherwise than those it took."""
# expect: sharding params['w'] "f32[4,2] @P()/mesh(m=2:auto) committed" -> "f32[4,2] @P('m')/mesh(m=2:auto) committed"
# settles: 2
# settling: sharding
# pattern: fed_back_output

import jax
import jax.numpy as jnp

import coldstep

mesh = jax.make_mesh((2,), ("m",), axis_types=(jax.sharding.AxisType.Auto,))
whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
split = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("m"))


@jax.jit
def train_step(params):
    return {"w": jax.lax.with_sharding_constraint(params["w"] * 0.9, split)}


params = jax.device_put({"w": jnp.ones((4, 2))}, whole)
for _ in range(5):
    with coldstep.step():
        params = coldstep.wait(train_step(params))
