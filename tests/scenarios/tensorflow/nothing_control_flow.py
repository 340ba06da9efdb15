"""Branches and loops in the graph."""
# expect: nothing

import tensorflow as tf


@tf.function
def power(x, n):
    for _ in tf.range(n):
        if tf.reduce_sum(x) > 10.0:
            x = x / 2.0
    return x


for n in (2, 5, 9):
    power(tf.ones(2), tf.constant(n))
