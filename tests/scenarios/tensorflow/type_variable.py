"""A tensor, then a variable."""
# expect: type x f32[2] -> "f32[2] variable"

import tensorflow as tf


@tf.function
def train_step(x):
    return tf.reduce_sum(x**2)


train_step(tf.ones(2))
train_step(tf.Variable(tf.ones(2)))
