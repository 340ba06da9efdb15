"""An unhashable static argument is the user's error, and no compile."""
# expect: nothing

import contextlib
import functools

import jax
import numpy as np

import coldstep


@functools.partial(jax.jit, static_argnames="sizes")
def zeros(x, sizes):
    return x.reshape(sizes)


x = np.ones(4, np.float32)
for sizes in ((2, 2), [2, 2], (2, 2)):
    with coldstep.step(), contextlib.suppress(ValueError):
        coldstep.wait(zeros(x, sizes=sizes))
