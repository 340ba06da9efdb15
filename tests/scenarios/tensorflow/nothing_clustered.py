"""Clusters for XLA are asked for, and made for no CPU: a graph of open sizes takes each without a compile."""
# expect: nothing
# settles: 1

import tensorflow as tf

import coldstep

tf.config.optimizer.set_jit(True)


@tf.function(input_signature=[tf.TensorSpec([None, 64])])
def train_step(x):
    for _ in range(4):
        x = tf.tanh(x @ tf.ones((64, 64)))
    return tf.reduce_sum(x)


for size in (4, 4, 5, 6, 4):
    with coldstep.step():
        coldstep.wait(train_step(tf.ones((size, 64))))
