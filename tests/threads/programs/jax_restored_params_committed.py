"""Train a small regressor, then load saved weights in the middle and go on training."""

import jax
import jax.numpy as jnp
import numpy as np

rng = np.random.default_rng(0)
x = jnp.asarray(rng.normal(size=(16, 3)), dtype=jnp.float32)
y = jnp.asarray(rng.normal(size=(16,)), dtype=jnp.float32)


def loss_fn(params):
    return jnp.mean((x @ params["w"] + params["b"] - y) ** 2)


@jax.jit
def train_step(params):
    loss, grads = jax.value_and_grad(loss_fn)(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss


def restore(template, saved):
    return {name: jax.device_put(saved[name], template[name].sharding) for name in saved}


params = {"w": jnp.zeros(3), "b": jnp.zeros(())}
for _ in range(3):
    params, loss = train_step(params)
    print("loss", repr(float(loss)))

checkpoint = {name: np.asarray(value) for name, value in params.items()}
params = restore(params, checkpoint)
for _ in range(3):
    params, loss = train_step(params)
    print("loss", repr(float(loss)))
# /// thread
# address = "https://github.com/jax-ml/jax/issues/15924"
# asked = "After loading weights with jax.device_put(x, sharding) the train step compiles again for the same shapes."
# answer = "device_put with a sharding commits the array to its device, and jit compiles apart for committed arrays."
# stack = "jax"
# mechanism = "committed"
# argument = "params"
# before = "uncommitted"
# after = "committed to the CPU device"
# line = 23
# lines_accepted = [17, 32, 34]
# compiles = [2, 1]
# counted = "compiles of jit(train_step) in JAX_LOG_COMPILES"
# cure = "Load the weights as the first ones were made, uncommitted: jax.device_put(saved[name]) without a sharding."
# cure_lines = [{line = 23, code = "    return {name: jax.device_put(saved[name]) for name in saved}"}]
# cure_environment = {}
# losses = "equal"
# ///
