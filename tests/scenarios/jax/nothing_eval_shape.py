"""What is only traced compiles nothing."""
# expect: nothing

import jax
import numpy as np

import coldstep


def init(x):
    return x * 2


for size in (3, 4, 5):
    jax.eval_shape(init, np.ones(size))
    jax.make_jaxpr(init)(np.ones(size))
    with coldstep.step():
        coldstep.wait(jax.jit(init)(np.ones(3, np.float32)))
