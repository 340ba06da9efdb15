"""A typed key follows a legacy one."""
# expect: dtype key u32[2] -> key<fry>[]

import jax

import coldstep


@jax.jit
def sample(key):
    return jax.random.normal(key, (3,))


for key in (jax.random.PRNGKey(0), jax.random.key(0)):
    with coldstep.step():
        coldstep.wait(sample(key))
