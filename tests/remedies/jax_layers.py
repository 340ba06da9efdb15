"""A loop over layers that are alike, of which the program holds each."""

import os

import jax
import jax.numpy as jnp
import numpy as np

os.environ["XLA_FLAGS"] = ""  # layers are told of where they take long to compile
LAYERS, WIDTH = 9, 16


def block(layer, x):
    hidden = jax.nn.gelu(x @ layer["up"] + layer["bias"])
    x = x + hidden @ layer["down"]
    mean = x.mean(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5)


def loss_of(layers, x):
    for layer in layers:
        x = block(layer, x)
    return jnp.mean(x**3)


@jax.jit
def step(layers, x):
    loss, gradient = jax.value_and_grad(loss_of)(layers, x)
    return jax.tree.map(lambda a, b: a - 0.125 * b, layers, gradient), loss


random = np.random.default_rng(0)


def made(*shape):
    return jnp.asarray(random.normal(size=shape) * 0.1, jnp.float32)


layers = [{"up": made(WIDTH, 32), "bias": made(32), "down": made(32, WIDTH)} for _ in range(LAYERS)]
x = made(4, WIDTH)
for _ in range(3):
    layers, loss = step(layers, x)
print("loss", round(float(loss), 3))
