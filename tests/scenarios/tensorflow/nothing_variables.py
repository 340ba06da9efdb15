"""Another variable of the same shape."""
# expect: nothing

import tensorflow as tf


@tf.function
def total(v):
    return tf.reduce_sum(v)


for _ in range(3):
    total(tf.Variable(tf.ones(2)))
