"""A static tuple of sizes changes."""
# expect: static_argument sizes "(4, 2)" -> "(4, 3)"
# settles: 1

import functools

import jax
import jax.numpy as jnp

import coldstep


@functools.partial(jax.jit, static_argnums=0)
def zeros(sizes):
    return jnp.zeros(sizes)


for width in (2, 2, 2, 2, 3):
    with coldstep.step():
        coldstep.wait(zeros((4, width)))
