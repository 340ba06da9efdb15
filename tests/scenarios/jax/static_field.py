"""A static field of a dataclass that is an argument gets another value."""
# expect: static_argument state.rate 0.1 -> 0.2
# settles: 1

import dataclasses
import functools

import jax
import jax.numpy as jnp

import coldstep


@functools.partial(jax.tree_util.register_dataclass, data_fields=["w"], meta_fields=["rate"])
@dataclasses.dataclass
class State:
    w: jax.Array
    rate: float


@jax.jit
def step(state):
    return state.w * state.rate


w = jnp.ones(3)

for rate in (0.1, 0.1, 0.1, 0.1, 0.2):
    with coldstep.step():
        coldstep.wait(step(State(w, rate)))
