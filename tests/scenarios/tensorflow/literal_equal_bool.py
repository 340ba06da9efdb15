"""True and 1 are one key, and so are False and 0: the graphs for the flag answer for the numbers."""
# expect: python_scalar n True -> False
# finding: literal_equal

import tensorflow as tf


@tf.function
def scale(x, n):
    return x * float(n)


for n in (True, False, 1, 0):
    scale(tf.ones(2), n)
