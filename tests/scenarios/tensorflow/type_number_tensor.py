"""A number, then a tensor."""
# expect: type n 2 -> i32[]

import tensorflow as tf


@tf.function
def model(x, n):
    return x * tf.cast(n, tf.float32)


model(tf.ones(2), 2)
model(tf.ones(2), tf.constant(2))
