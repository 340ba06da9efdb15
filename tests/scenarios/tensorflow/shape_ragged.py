"""Rows of a ragged tensor."""
# expect: shape x "f32[2,None] ragged" -> "f32[3,None] ragged"

import tensorflow as tf


@tf.function
def total(x):
    return tf.reduce_sum(x)


total(tf.ragged.constant([[1.0], [2.0, 3.0]]))
total(tf.ragged.constant([[1.0], [2.0, 3.0], [4.0]]))
