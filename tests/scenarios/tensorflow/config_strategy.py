"""Called under a strategy."""
# expect: config cross-replica False -> True

import tensorflow as tf


@tf.function
def train_step(x):
    return tf.reduce_sum(x**2)


train_step(tf.ones(2))
with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
    train_step(tf.ones(2))
