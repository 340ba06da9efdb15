"""A request's number is Python's, and each value of it is traced anew.

Rebuilt from tensorflow/tensorflow#32157.
"""
# late: python_scalar beams

import tensorflow as tf

import coldstep

weights = tf.ones((4, 4))


@tf.function
def search(x, beams):
    return tf.reduce_sum(tf.matmul(x, weights)) * beams


search(tf.zeros((1, 4)), 1)
coldstep.ready()
for beams in (1, 4):
    with coldstep.step("request"):
        search(tf.ones((1, 4)), beams)
