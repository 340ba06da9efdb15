"""Two arguments that are one variable."""
# expect: aliasing b "a variable of its own" -> a

import tensorflow as tf


@tf.function
def add(a, b):
    return a + b


v, w = tf.Variable(tf.ones(2)), tf.Variable(tf.ones(2))
for a, b in ((v, w), (w, v), (v, v), (w, w)):
    add(a, b)
