"""A global that has changed when the function is wrapped again."""
# expect: global SCALE 2.0 -> 3.0

import tensorflow as tf

SCALE = 2.0


def step(x):
    return x * SCALE


tf.function(step)(tf.ones(2))
SCALE = 3.0
tf.function(step)(tf.ones(2))
