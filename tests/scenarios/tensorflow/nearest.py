"""Of two earlier variants, the one that differs less is compared."""
# expect: shape x f32[2] -> f32[3]
# expect: dtype x f32[3] -> f64[3]
# expect: shape x f32[3] -> f32[4]

import tensorflow as tf


@tf.function
def total(x):
    return tf.reduce_sum(x)


for size, dtype in ((2, tf.float32), (3, tf.float32), (3, tf.float64), (4, tf.float32)):
    total(tf.ones(size, dtype))
