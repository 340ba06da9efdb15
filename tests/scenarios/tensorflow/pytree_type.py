"""A list, then a tuple."""
# expect: pytree parts "list of 1" -> "tuple of 1"

import tensorflow as tf


@tf.function
def total(parts):
    return tf.add_n(parts)


total([tf.ones(2)])
total((tf.ones(2),))
