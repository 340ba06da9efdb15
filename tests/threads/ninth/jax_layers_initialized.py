"""Makes the parameters of a stack of layers, and trains it by a scan over the layers."""

import jax
import jax.numpy as jnp

LAYERS, WIDTH, EXPERTS = 32, 8, 4


def init_layer(key):
    keys = jax.random.split(key, 5)
    return {
        "attention": jax.random.uniform(keys[0], (WIDTH, 3 * WIDTH), minval=-1.7, maxval=1.7) / WIDTH**0.5,
        "out": jax.random.uniform(keys[1], (WIDTH, WIDTH), minval=-1.7, maxval=1.7) / WIDTH**0.5,
        "router": jax.random.uniform(keys[2], (WIDTH, EXPERTS), minval=-0.03, maxval=0.03),
        "up": jax.random.uniform(keys[3], (EXPERTS, WIDTH, 2 * WIDTH), minval=-1.7, maxval=1.7) / WIDTH**0.5,
        "down": jax.random.uniform(keys[4], (EXPERTS, 2 * WIDTH, WIDTH), minval=-1.7, maxval=1.7) / (2 * WIDTH) ** 0.5,
    }


@jax.jit
def init(key):
    keys = jax.random.split(key, LAYERS)
    layers = [init_layer(keys[layer]) for layer in range(LAYERS)]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *layers)


def block(x, layer):
    query, key, value = jnp.split(x @ layer["attention"], 3, -1)
    x = x + jax.nn.softmax(query @ key.T / 3) @ value @ layer["out"] / LAYERS
    gates = jax.nn.softmax(x @ layer["router"])
    hidden = jax.nn.gelu(jnp.einsum("td,edh->teh", x, layer["up"]))
    return x + jnp.einsum("teh,ehd,te->td", hidden, layer["down"], gates) / LAYERS, None


def loss(params, x):
    return jnp.mean(jnp.square(jax.lax.scan(block, x, params)[0] - 1))


@jax.jit
def step(params, x):
    value, grads = jax.value_and_grad(loss)(params, x)
    return jax.tree.map(lambda param, grad: param - 0.01 * grad, params, grads), value


params = init(jax.random.key(0))
for index in range(4):
    params, value = step(params, jax.random.normal(jax.random.key(index), (6, WIDTH)))
    print("loss", repr(float(value)))
# /// thread
# address = "https://github.com/marin-community/marin/pull/8206"
# asked = "Initialization has become the most expensive module to compile, three quarters of a launch."
# answer = """\
# The initializer loops in Python over the layers, so that its program grows with the depth: make the layers in \
# one vmapped trace."""
# stack = "jax"
# mechanism = "unrolled"
# argument = "for layer in range(LAYERS)"
# before = ""
# after = ""
# line = 23
# lines_accepted = [20, 21, 24, 45]
# compiles = [1, 1]
# counted = "seconds that XLA compiles init: 39 to 25 on a loaded machine"
# cure = "vmap over the keys."
# cure_lines = [
#   {line = 23, code = ""},
#   {line = 24, code = "    return jax.vmap(init_layer)(keys)"},
# ]
# cure_environment = {}
# losses = "close"
# ///
