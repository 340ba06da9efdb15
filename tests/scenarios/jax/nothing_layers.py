"""A loop over layers, each with weights of its own, is how a network is written."""
# expect: nothing

import jax
import jax.numpy as jnp

import coldstep


@jax.jit
def forward(layers, x):
    for weight, bias in layers:
        x = jnp.tanh(x @ weight) + jnp.sin(bias) * jnp.cos(bias)
    return x


layers = [(jnp.ones((4, 4)), jnp.ones(4)) for _ in range(24)]
for n in range(4):
    with coldstep.step():
        coldstep.wait(forward(layers, jnp.full((4, 4), float(n))))
