"""A call of an open graph that takes long, and compiles nothing."""
# expect: nothing

import tensorflow as tf


@tf.function(jit_compile=True, input_signature=[tf.TensorSpec([None, 512]), tf.TensorSpec([], tf.int32)])
def train_step(x, n):
    i = 0
    while i < n:
        x = tf.tanh(x @ tf.ones((512, 512)))
        i += 1
    return tf.reduce_sum(x)


for n in (1, 1, 1, 200, 1):
    train_step(tf.ones((64, 512)), tf.constant(n))
