"""1, then 1.0, which TensorFlow takes for the same, and another shape: only the shape is why it is traced again."""
# expect: shape x f32[2] -> f32[3]
# finding: literal_equal

import tensorflow as tf


@tf.function
def scale(x, by):
    return x * by


scale(tf.ones(2), 1)
scale(tf.ones(2), 1.0)
scale(tf.ones(3), 1.0)
