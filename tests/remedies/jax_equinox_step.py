"""A training step with a module of Equinox', which nobody jitted."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax


class Scaled(eqx.Module):
    mlp: eqx.nn.MLP
    scale: jax.Array

    def __call__(self, x):
        return self.mlp(x) * self.scale


@eqx.filter_value_and_grad
def mse(model, x, y):
    return jnp.mean((jax.vmap(model)(x) - y) ** 2)


def train(model, state, x, y):
    loss, grads = mse(model, x, y)
    updates, state = optimizer.update(grads, state, model)
    model = eqx.apply_updates(model, updates)
    return model, state, loss


optimizer = optax.adam(0.01)
key = jax.random.wrap_key_data(jax.device_put(np.zeros(2, np.uint32)))
one = jax.device_put(np.float32(1.0))
model = eqx.filter_jit(lambda: Scaled(eqx.nn.MLP(4, 1, 8, 2, key=key), one))()
state = eqx.filter_jit(optimizer.init)(eqx.filter(model, eqx.is_array))
x = jax.device_put(np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4))
y = jax.device_put(np.ones((8, 1), np.float32))
for _ in range(5):
    model, state, loss = train(model, state, x, y)
print("loss", round(float(loss), 3))
