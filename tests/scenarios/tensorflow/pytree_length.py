"""One more part."""
# expect: pytree parts "list of 1" -> "list of 2"

import tensorflow as tf


@tf.function
def total(parts):
    return tf.add_n(parts)


total([tf.ones(2)])
total([tf.ones(2), tf.ones(2)])
