"""A variable that is not trained."""
# expect: requires_grad v "f32[2] variable" -> "f32[2] variable frozen"

import tensorflow as tf


@tf.function
def total(v):
    return tf.reduce_sum(v)


for trainable in (True, False):
    total(tf.Variable(tf.ones(2), trainable=trainable))
