"""Two functions that are alike."""
# expect: nothing

import tensorflow as tf


@tf.function
def one(x):
    return x * 2


@tf.function
def other(x):
    return x * 2


one(tf.ones(2))
other(tf.ones(3))
