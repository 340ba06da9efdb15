"""An argument that TensorFlow refuses: nothing is traced."""
# expect: nothing

import tensorflow as tf


@tf.function
def model(x, names):
    return x


model(tf.ones(2), ("a",))
try:
    model(tf.ones(2), {"a"})
except TypeError:
    pass
else:
    raise AssertionError("a set was taken")
