"""A frozen dataclass as a static argument: its fields are its value."""
# expect: static_argument config "Config(n=2, act='relu')" -> "Config(n=3, act='relu')"
# settles: 1

import dataclasses
import functools

import jax
import numpy as np

import coldstep


@dataclasses.dataclass(frozen=True)
class Config:
    n: int
    act: str = "relu"


@functools.partial(jax.jit, static_argnames="config")
def power(x, config):
    return x**config.n


x = np.ones(3, np.float32)

for n in (2, 2, 2, 2, 3):
    with coldstep.step():
        coldstep.wait(power(x, config=Config(n)))
