"""With reduce_retracing the second size leaves the dimension open, and a third compiles nothing."""
# expect: shape x f32[2,3] -> f32[None,3]
# pattern: relaxed

import tensorflow as tf


@tf.function(reduce_retracing=True)
def train_step(x):
    return tf.reduce_sum(x)


for size in (2, 4, 6, 2):
    train_step(tf.ones((size, 3)))
