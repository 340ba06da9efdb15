"""A text."""
# expect: python_scalar mode 'train' -> 'eval'

import tensorflow as tf


@tf.function
def model(x, mode):
    return x * 2 if mode == "train" else x


for mode in ("train", "eval"):
    model(tf.ones(2), mode)
