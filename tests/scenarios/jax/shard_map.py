"""A sharded map inside; the batch differs."""
# expect: shape x "f32[8] @P('d')/mesh(d=2) committed" -> "f32[4] @P('d')/mesh(d=2) committed"

import functools

import jax
import numpy as np

import coldstep

mesh = jax.make_mesh((2,), ("d",))
spec = jax.sharding.PartitionSpec("d")
split = jax.sharding.NamedSharding(mesh, spec)


@jax.jit
@functools.partial(jax.shard_map, mesh=mesh, in_specs=spec, out_specs=spec)
def double(x):
    return x * 2


for size in (8, 8, 4):
    with coldstep.step():
        coldstep.wait(double(jax.device_put(np.ones(size, np.float32), split)))
