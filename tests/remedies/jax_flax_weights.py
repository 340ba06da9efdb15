"""Weights of a module of Flax' that are made operation by operation."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np


class Net(nn.Module):
    width: int = 8

    @nn.compact
    def __call__(self, x, train: bool):
        x = nn.Dense(self.width)(x)
        x = nn.Dropout(0.5, deterministic=not train)(x)
        if train:
            x = x * 2.0
        return nn.Dense(1)(nn.relu(x))


def main():
    net = Net()
    key = jax.random.wrap_key_data(jax.device_put(np.zeros(2, np.uint32)))
    x = np.ones((4, 3), np.float32)
    variables = net.init(key, x, train=False)

    @jax.jit
    def energy(variables, x):
        return jnp.mean(net.apply(variables, x, train=False) ** 2)

    print("loss", round(float(energy(variables, x)), 3))


main()
