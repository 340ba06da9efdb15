"""A number in a named tuple."""
# expect: python_scalar state.n 1 -> 2

from typing import NamedTuple

import tensorflow as tf


class State(NamedTuple):
    x: tf.Tensor
    n: int


@tf.function
def model(state):
    return state.x * state.n


for n in (1, 2):
    model(State(tf.ones(2), n))
