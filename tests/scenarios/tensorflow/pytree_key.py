"""One more key."""
# expect: pytree batch {'x'} -> "{'x', 'y'}"

import tensorflow as tf


@tf.function
def total(batch):
    return tf.add_n(list(batch.values()))


total({"x": tf.ones(2)})
total({"x": tf.ones(2), "y": tf.ones(2)})
