"""A batch without its dimension."""
# expect: shape x f32[2,3] -> f32[3]

import tensorflow as tf


@tf.function
def train_step(x):
    return tf.reduce_sum(x**2)


train_step(tf.ones((2, 3)))
train_step(tf.ones(3))
