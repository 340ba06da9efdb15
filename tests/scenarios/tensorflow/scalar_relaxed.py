"""reduce_retracing does nothing for Python numbers."""
# expect: python_scalar n 1 -> 2
# expect: python_scalar n 2 -> 3
# expect: python_scalar n 3 -> 4

import tensorflow as tf


@tf.function(reduce_retracing=True)
def train_step(x, n):
    return x * n


for n in (1, 2, 3, 4):
    train_step(tf.ones(2), n)
