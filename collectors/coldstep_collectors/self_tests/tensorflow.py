"""What `coldstep doctor` promises for TensorFlow: a function that is traced for one shape, and again for another."""
# mypy: ignore-errors

import tensorflow as tf


@tf.function
def train_step(x):
    return tf.reduce_sum(x**2)


for size in (8, 5):
    train_step(tf.ones(size))
