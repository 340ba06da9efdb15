"""The second size is traced, with the dimension open; the third only compiled by XLA."""
# expect: shape x f32[4,64] -> f32[None,64]
# expect: shape x f32[5,64] -> f32[6,64]

import tensorflow as tf


@tf.function(jit_compile=True, reduce_retracing=True)
def train_step(x):
    for _ in range(4):
        x = tf.tanh(x @ tf.ones((64, 64)))
    return tf.reduce_sum(x)


for size in (4, 4, 5, 5, 5, 6, 6):
    train_step(tf.ones((size, 64)))
