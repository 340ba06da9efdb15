"""1.0 and 1 are one key: the graph for 1.0 answers for 1."""
# expect: nothing
# finding: literal_equal

import tensorflow as tf


@tf.function
def scale(x, by):
    return x * by


scale(tf.ones(2), 1.0)
scale(tf.ones(2), 1)
