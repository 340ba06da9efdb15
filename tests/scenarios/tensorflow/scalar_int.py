"""A Python number that counts: each value is traced."""
# expect: python_scalar n 1 -> 2
# expect: python_scalar n 2 -> 3

import tensorflow as tf


@tf.function
def train_step(x, n):
    return x * n


for n in (1, 2, 3, 1):
    train_step(tf.ones(2), n)
