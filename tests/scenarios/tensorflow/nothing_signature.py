"""A signature takes lists, arrays and other sizes, and refuses another rank: that is traced neither."""
# expect: nothing

import numpy as np
import tensorflow as tf


@tf.function(input_signature=[tf.TensorSpec([None, 2])])
def total(x):
    return tf.reduce_sum(x)


for x in (np.ones((1, 2), np.float32), [[1.0, 2.0], [3.0, 4.0]], tf.ones((5, 2))):
    total(x)
try:
    total(tf.ones(2))
except TypeError:
    pass
else:
    raise AssertionError("another rank was taken")
