"""A default, said or not, by position or by name."""
# expect: nothing

import tensorflow as tf


@tf.function
def model(x, n=1):
    return x * n


model(tf.ones(2))
model(tf.ones(2), 1)
model(x=tf.ones(2), n=1)
