"""A long static configuration differs in one place."""
# expect: static_argument widths[70] 7 -> 8

import functools

import jax
import numpy as np

import coldstep


@functools.partial(jax.jit, static_argnums=1)
def forward(x, widths):
    return x * widths[70]


x, widths = np.ones(3, np.float32), tuple(range(100))

for last in (7, 7, 8):
    with coldstep.step():
        coldstep.wait(forward(x, (*widths[:70], last, *widths[71:])))
