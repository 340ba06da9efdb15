"""The warm-up's inputs lie on one device, those of the requests are spread over the mesh.

Rebuilt from vllm-project/tpu-inference#1967.
"""
# late: sharding tokens

import jax
import jax.numpy as jnp
import numpy as np

import coldstep

mesh = jax.make_mesh((2,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
spread = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
table = jax.device_put(jnp.ones((32, 4)), jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec()))


@jax.jit
def forward(table, tokens):
    return table[tokens].sum(-1)


forward(table, np.zeros((8, 16), np.int32))
coldstep.ready()
with coldstep.step("request"):
    tokens = jax.device_put(np.zeros((8, 16), np.int32), spread)
    coldstep.wait(forward(table, tokens))
