"""Called while a graph of the old kind is built."""
# expect: config graph eager -> "graph #1"

import tensorflow as tf


@tf.function
def train_step(x):
    return tf.reduce_sum(x**2)


train_step(tf.ones(2))
with tf.Graph().as_default():
    train_step(tf.ones(2))
