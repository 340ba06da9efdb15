"""A second dimension varies, once the first is open."""
# expect: shape x f32[2,3] -> f32[None,3]
# expect: shape x f32[None,3] -> f32[None,None]
# pattern: relaxed
# pattern: relaxed

import tensorflow as tf


@tf.function(reduce_retracing=True)
def train_step(x):
    return tf.reduce_sum(x)


for shape in ((2, 3), (4, 3), (4, 5), (7, 9)):
    train_step(tf.ones(shape))
