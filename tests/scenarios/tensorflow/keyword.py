"""A keyword that one call has."""
# expect: keyword bias - -> f32[2]

import tensorflow as tf


@tf.function
def model(x, **extra):
    return x + extra.get("bias", 0.0)


model(tf.ones(2))
model(tf.ones(2), bias=tf.ones(2))
