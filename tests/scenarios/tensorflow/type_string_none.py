"""A text, then nothing."""
# expect: type mode 'a' -> None

import tensorflow as tf


@tf.function
def model(x, mode):
    return x


model(tf.ones(2), "a")
model(tf.ones(2), None)
