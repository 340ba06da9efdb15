"""A new lambda in each call."""
# expect: identity activation "<lambda> #1" -> "<lambda> #2"

import tensorflow as tf


@tf.function
def model(x, activation):
    return activation(x)


for _ in range(2):
    model(tf.ones(2), lambda x: x * 2)
