"""Recompiles of every kind of argument, a cleared cache, and a loop that settles; recorded with --ir."""

import functools

import jax
import jax.numpy as jnp

import coldstep


@functools.partial(jax.jit, static_argnames=("scale",), donate_argnums=(0,))
def train_step(params, batch, scale=1):
    return jax.tree.map(lambda w: w - 0.1 * jnp.tanh(batch).mean() * scale, params)


@jax.jit
def evaluate(x):
    return jnp.sin(x).sum()


params = {"w": jnp.ones((8, 4)), "b": jnp.zeros(4)}
for rows, scale in ((4, 1), (5, 1), (4, 1), (5, 2), (4, 1), (4, 1), (4, 1), (3, 1)):
    with coldstep.step():
        params = coldstep.wait(train_step(params, jnp.ones((rows, 2)), scale=scale))
with coldstep.step("validation"):
    coldstep.wait(evaluate(jnp.ones(4)))
jax.clear_caches()
with coldstep.step("validation"):
    coldstep.wait(evaluate(jnp.ones(4)))
coldstep.wait(evaluate(jnp.ones(4, jnp.bfloat16)))
