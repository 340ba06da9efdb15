"""An eager program: many small programs, no recompile of the user's."""
# expect: nothing

import jax
import jax.numpy as jnp

import coldstep

w = jax.random.normal(jax.random.key(0), (4, 2))
total = 0.0
for size in (8, 8, 5):
    with coldstep.step():
        total += coldstep.wait((jnp.ones((size, 4)) @ w).sum())
