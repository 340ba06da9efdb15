"""Under a device, and in another thread."""
# expect: nothing

import threading

import tensorflow as tf


@tf.function
def train_step(x):
    return tf.reduce_sum(x**2)


train_step(tf.ones(2))
with tf.device("CPU:0"):
    train_step(tf.ones(2))
thread = threading.Thread(target=train_step, args=(tf.ones(2),))
thread.start()
thread.join()
