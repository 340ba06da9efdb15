"""A loop that compiles once."""
# expect: nothing
# settles: 1

import tensorflow as tf

import coldstep


@tf.function
def train_step(x):
    return tf.reduce_sum(x**2)


for _ in range(6):
    with coldstep.step():
        coldstep.wait(train_step(tf.ones((8, 4))))
