import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

jax.config.update("jax_num_cpu_devices", 2)
mesh = Mesh(np.array(jax.devices()), ("data",))
weights = jax.device_put(jnp.zeros(4), NamedSharding(mesh, PartitionSpec()))
x = jax.device_put(jnp.ones((8, 4)), NamedSharding(mesh, PartitionSpec("data")))


@jax.jit
def step(state, x):
    error = (x @ state["weights"] - 1.0).mean()
    return {"weights": state["weights"] - 0.1 * error, "count": state["count"] + 1}


state = {"weights": weights, "count": jnp.zeros((), jnp.int32)}
for _ in range(4):
    state = step(state, x)
    print("loss", float(state["weights"].sum()), int(state["count"]))
