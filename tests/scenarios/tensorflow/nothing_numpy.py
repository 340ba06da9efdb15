"""Arrays of the same type, then a tensor: neither their values count, nor whose they are."""
# expect: nothing

import numpy as np
import tensorflow as tf


@tf.function
def train_step(x):
    return tf.reduce_sum(x**2)


for value in range(3):
    train_step(np.full((2, 2), value, np.float32))
train_step(tf.ones((2, 2)))
