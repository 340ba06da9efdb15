"""A sparse tensor of another shape."""
# expect: shape x "f32[2] sparse" -> "f32[3] sparse"

import tensorflow as tf


@tf.function
def total(x):
    return tf.sparse.reduce_sum(x)


for size in (2, 3):
    total(tf.sparse.from_dense(tf.ones(size)))
