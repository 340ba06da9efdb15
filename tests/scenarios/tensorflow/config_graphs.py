"""Called while one graph of the old kind is built, then another."""
# expect: config graph "graph #1" -> "graph #2"

import tensorflow as tf


@tf.function
def train_step(x):
    return tf.reduce_sum(x**2)


for _ in range(2):
    with tf.Graph().as_default():
        train_step(tf.ones(2))
