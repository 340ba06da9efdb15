"""An optional argument with several leaves appears: one change, not one per leaf."""
# expect: keyword state - -> "{'a', 'b'}"
# settles: 1

import jax
import numpy as np

import coldstep


@jax.jit
def forward(x, **optional):
    return x + sum(jax.tree.leaves(optional))


@jax.jit
def call(x, state=()):
    return x + sum(jax.tree.leaves(state))


x = np.ones(3, np.float32)
for n in range(5):
    with coldstep.step():
        coldstep.wait(call(x) if n < 4 else call(x, state={"a": x, "b": x}))
