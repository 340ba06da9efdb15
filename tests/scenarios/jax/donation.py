"""A second jit of one function donates its argument."""
# expect: donation x "not donated" -> donated

import jax
import jax.numpy as jnp

import coldstep


def update(x):
    return x + 1


first, second = jax.jit(update), jax.jit(update, donate_argnums=0)

for jitted in (first, first, second):
    with coldstep.step():
        coldstep.wait(jitted(jnp.ones(3)))
