"""A global changes, and then the shape: only the shape is why it is traced again."""
# expect: shape x f32[2] -> f32[3]

import tensorflow as tf

RATE = 0.5


@tf.function
def train_step(x):
    return x * RATE


train_step(tf.ones(2))
RATE = 0.25
train_step(tf.ones(3))
