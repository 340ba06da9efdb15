"""A factory that is called for another value."""
# expect: closure scale 2.0 -> 3.0

import tensorflow as tf


def make(scale):
    @tf.function
    def step(x):
        return x * scale

    return step


for scale in (2.0, 3.0):
    make(scale)(tf.ones(2))
