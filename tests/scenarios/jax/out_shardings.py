"""A second jit of one function asks for another sharding of the result."""
# expect: sharding out_shardings - -> P('d')/mesh(d=2)

import jax
import jax.numpy as jnp

import coldstep


def step(x):
    return x * 2


spread = jax.sharding.NamedSharding(jax.make_mesh((2,), ("d",)), jax.sharding.PartitionSpec("d"))
x = jnp.ones((8, 4))

for jitted in (jax.jit(step), jax.jit(step, out_shardings=spread)):
    with coldstep.step():
        coldstep.wait(jitted(x))
