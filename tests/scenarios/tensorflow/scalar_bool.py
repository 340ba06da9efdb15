"""A flag: two variants, and going back compiles nothing."""
# expect: python_scalar training True -> False

import tensorflow as tf


@tf.function
def model(x, training):
    return x * 2 if training else x


for training in (True, False, True, False):
    model(tf.ones(2), training)
