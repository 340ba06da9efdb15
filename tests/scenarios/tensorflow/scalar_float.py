"""A learning rate as a Python number."""
# expect: python_scalar rate 0.1 -> 0.05

import tensorflow as tf


@tf.function
def train_step(x, rate):
    return x * rate


for rate in (0.1, 0.05):
    train_step(tf.ones(2), rate)
