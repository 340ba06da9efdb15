"""A function for XLA within one for any size."""
# expect: shape x f32[4,64] -> f32[9,64]

import tensorflow as tf


@tf.function(jit_compile=True)
def layers(x):
    for _ in range(4):
        x = tf.tanh(x @ tf.ones((64, 64)))
    return x


@tf.function(input_signature=[tf.TensorSpec([None, 64])])
def train_step(x):
    return tf.reduce_sum(layers(x))


for size in (4, 4, 4, 9, 9):
    train_step(tf.ones((size, 64)))
