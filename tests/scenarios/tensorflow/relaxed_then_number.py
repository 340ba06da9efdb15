"""A size that fits an open dimension is no cause, a number is."""
# expect: shape x f32[2,3] -> f32[None,3]
# expect: python_scalar n 1 -> 2

import tensorflow as tf


@tf.function(reduce_retracing=True)
def train_step(x, n):
    return tf.reduce_sum(x) * n


for size, n in ((2, 1), (4, 1), (6, 2)):
    train_step(tf.ones((size, 3)), n)
