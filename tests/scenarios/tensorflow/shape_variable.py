"""A variable of another shape; one more of the same shape is none."""
# expect: shape v "f32[2] variable" -> "f32[3] variable"

import tensorflow as tf


@tf.function
def total(v):
    return tf.reduce_sum(v)


for size in (2, 2, 3, 2):
    total(tf.Variable(tf.ones(size)))
