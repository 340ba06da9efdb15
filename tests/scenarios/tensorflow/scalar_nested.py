"""A number deep in an argument."""
# expect: python_scalar batch['n'] 3 -> 4

import tensorflow as tf


@tf.function
def model(batch):
    return batch["x"] * batch["n"]


for n in (3, 4):
    model({"x": tf.ones(2), "n": n})
