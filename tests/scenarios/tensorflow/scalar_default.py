"""A default, and another value."""
# expect: python_scalar n 1 -> 2

import tensorflow as tf


@tf.function
def model(x, n=1):
    return x * n


model(tf.ones(2))
model(tf.ones(2), 1)
model(tf.ones(2), n=2)
