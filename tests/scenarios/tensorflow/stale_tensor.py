"""A captured tensor is replaced, and the graph does not see it."""
# expect: nothing
# finding: stale_capture

import tensorflow as tf

offset = tf.constant(1.0)


@tf.function
def add(x):
    return x + offset


add(tf.ones(2))
offset = tf.constant(5.0)
add(tf.ones(2))
