"""The last batch is spread over the mesh, which the first were not."""
# expect: sharding x f32[8,4] -> "f32[8,4] @P('d')/mesh(d=2) committed"
# settles: 1

import jax
import jax.numpy as jnp

import coldstep


@jax.jit
def step(x):
    return x.sum()


spread = jax.sharding.NamedSharding(jax.make_mesh((2,), ("d",)), jax.sharding.PartitionSpec("d"))
x = jnp.ones((8, 4))

for where in (x, x, x, x, jax.device_put(x, spread)):
    with coldstep.step():
        coldstep.wait(step(where))
