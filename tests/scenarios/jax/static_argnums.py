"""A static argument passed by position gets another value, and the first one again: no compile then."""
# expect: static_argument train True -> False

import functools

import jax
import numpy as np

import coldstep


@functools.partial(jax.jit, static_argnums=1)
def forward(x, train):
    return x * 2 if train else x


x = np.ones(3, np.float32)

for train in (True, True, False, True, False):
    with coldstep.step():
        coldstep.wait(forward(x, train))
