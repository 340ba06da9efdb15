"""Traced ahead, and called later."""
# expect: nothing
# settles: 0

import tensorflow as tf

import coldstep


@tf.function
def train_step(x):
    return tf.reduce_sum(x**2)


train_step.get_concrete_function(tf.TensorSpec([8, 4]))
for _ in range(4):
    with coldstep.step():
        coldstep.wait(train_step(tf.ones((8, 4))))
