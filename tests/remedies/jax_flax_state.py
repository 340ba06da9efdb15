"""A training step over a state of Flax', which nobody jitted: gradients in one function, the update by the state."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training.train_state import TrainState


class Net(nn.Module):
    width: int = 8

    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Dense(self.width)(x))
        return nn.Dense(1)(x)


def train(state, x, y):
    def mse(params):
        out = state.apply_fn({"params": params}, x)
        return jnp.mean((out - y) ** 2), out

    (loss, _), grads = jax.value_and_grad(mse, has_aux=True)(state.params)
    return state.apply_gradients(grads=grads), loss


net = Net()
x = jax.device_put(np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4))
y = jax.device_put(np.ones((8, 1), np.float32))
key = jax.random.wrap_key_data(jax.device_put(np.zeros(2, np.uint32)))
params = jax.jit(net.init)(key, x)["params"]
state = TrainState.create(apply_fn=net.apply, params=params, tx=optax.sgd(0.1))
for _ in range(5):
    state, loss = train(state, x, y)
print("loss", round(float(loss), 3))
