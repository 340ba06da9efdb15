"""XLA, for one size."""
# expect: nothing
# settles: 1

import tensorflow as tf

import coldstep


@tf.function(jit_compile=True)
def train_step(x):
    return tf.reduce_sum(tf.tanh(x @ tf.ones((64, 64))))


for _ in range(6):
    with coldstep.step():
        coldstep.wait(train_step(tf.ones((4, 64))))
