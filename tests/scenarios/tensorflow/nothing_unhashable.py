"""Arguments that TensorFlow refuses: nothing is traced."""
# expect: nothing

from dataclasses import dataclass

import tensorflow as tf


@dataclass
class Batch:
    x: tf.Tensor


@tf.function
def model(x, names):
    return x


model(tf.ones(2), ("a",))
for refused in ({"a"}, Batch(tf.ones(2))):
    try:
        model(tf.ones(2), refused)
    except TypeError:
        pass
    else:
        raise AssertionError(f"{refused} was taken")
