"""Functions that are told to run eagerly."""
# expect: nothing

import tensorflow as tf


@tf.function
def train_step(x):
    return tf.reduce_sum(x**2)


tf.config.run_functions_eagerly(True)
for size in (2, 3):
    train_step(tf.ones(size))
