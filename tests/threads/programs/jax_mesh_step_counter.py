"""Train on a two-device CPU mesh with replicated weights, a sharded batch and a step counter in the state."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

jax.config.update("jax_num_cpu_devices", 2)
mesh = Mesh(np.array(jax.devices()), ("data",))
replicated = NamedSharding(mesh, PartitionSpec())
by_batch = NamedSharding(mesh, PartitionSpec("data"))


def init_state():
    params = jax.device_put(jnp.zeros((4,)), replicated)
    return {"params": params, "step": jnp.zeros((), dtype=jnp.int32)}


@jax.jit
def train_step(state, x, y):
    def loss_fn(params):
        return jnp.mean((x @ params - y) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(state["params"])
    rate = 0.1 / (1.0 + 0.1 * state["step"])
    return {"params": state["params"] - rate * grads, "step": state["step"] + 1}, loss


rng = np.random.default_rng(0)
x = jax.device_put(rng.normal(size=(8, 4)).astype(np.float32), by_batch)
y = jax.device_put(rng.normal(size=(8,)).astype(np.float32), by_batch)
state = init_state()
for _ in range(5):
    state, loss = train_step(state, x, y)
    print("loss", repr(float(loss)))
# /// thread
# address = "https://github.com/marin-community/marin/pull/8911"
# asked = "The second training step compiles another executable of the same train step."
# answer = "The step counter is made without the mesh's sharding, train_step returns it with one; make it replicated."
# stack = "jax"
# mechanism = "sharding"
# argument = "state[\"step\"]"
# before = "SingleDeviceSharding"
# after = "NamedSharding(P())"
# line = 16
# lines_accepted = [20, 34]
# compiles = [2, 1]
# counted = "compiles of jit(train_step) in JAX_LOG_COMPILES"
# cure = "Put the counter on the mesh too: jax.device_put(jnp.zeros((), dtype=jnp.int32), replicated) in init_state."
# cure_lines = [{line = 16, code = """
#     return {"params": params, "step": jax.device_put(jnp.zeros((), dtype=jnp.int32), replicated)}"""}]
# cure_environment = {}
# losses = "equal"
# ///
