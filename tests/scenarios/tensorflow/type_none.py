"""A mask that comes later."""
# expect: type mask None -> f32[2]
# pattern: lazily_created

import tensorflow as tf


@tf.function
def model(x, mask=None):
    return x if mask is None else x * mask


model(tf.ones(2))
model(tf.ones(2), tf.ones(2))
