"""Another dtype."""
# expect: dtype x f32[2] -> f64[2]

import tensorflow as tf


@tf.function
def train_step(x):
    return tf.reduce_sum(x**2)


train_step(tf.ones(2))
train_step(tf.ones(2, tf.float64))
