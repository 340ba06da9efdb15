"""A static object of equal content is made anew: its hash is its identity."""
# expect: static_argument config "Config #1" -> "Config #2"

import functools

import jax
import numpy as np

import coldstep


class Config:
    def __init__(self, n):
        self.n = n


@functools.partial(jax.jit, static_argnames="config")
def power(x, config):
    return x**config.n


x = np.ones(3, np.float32)
kept = [Config(2), Config(2)]

for at in (0, 0, 0, 0, 1):
    with coldstep.step():
        coldstep.wait(power(x, config=kept[at]))
