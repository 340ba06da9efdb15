"""tf.function called anew for one function."""
# expect: new_function - "double #1" -> "double #2"

import tensorflow as tf


def double(x):
    return x * 2


for _ in range(2):
    tf.function(double)(tf.ones(2))
