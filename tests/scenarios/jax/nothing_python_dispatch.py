"""A callback in the step keeps it off the fast path; nothing is compiled again."""
# expect: nothing
# settles: 1
# finding: fast_path_miss

import jax
import numpy as np

import coldstep


@jax.jit
def step(x):
    jax.debug.callback(lambda x: None, x)
    return x * 2


for _ in range(4):
    with coldstep.step():
        coldstep.wait(step(np.ones(3, np.float32)))
