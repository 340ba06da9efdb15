"""The same mesh with axes of another type."""
# expect: sharding x "f32[8,4] @P('d')/mesh(d=2:auto) committed" -> "f32[8,4] @P('d')/mesh(d=2) committed"

import jax
import jax.numpy as jnp

import coldstep


@jax.jit
def step(x):
    return x.sum()


def spread(kind):
    mesh = jax.make_mesh((2,), ("d",), axis_types=(kind,))
    return jax.device_put(jnp.ones((8, 4)), jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d")))


kinds = jax.sharding.AxisType

for kind in (kinds.Auto, kinds.Explicit):
    with coldstep.step():
        coldstep.wait(step(spread(kind)))
