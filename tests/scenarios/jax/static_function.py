"""A static function argument is a new lambda every time."""
# expect: static_argument act "<lambda> #1" -> "<lambda> #2"

import functools

import jax
import numpy as np

import coldstep


@functools.partial(jax.jit, static_argnames="act")
def layer(x, act):
    return act(x)


x = np.ones(3, np.float32)
for _ in range(2):
    with coldstep.step():
        coldstep.wait(layer(x, act=lambda x: x * 2))
