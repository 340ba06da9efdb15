"""A variable of any size, which the function holds: XLA compiles for each size that it has."""
# expect: shape table "f32[4,64] variable" -> "f32[9,64] variable"

import tensorflow as tf

table = tf.Variable(tf.ones((4, 64)), shape=[None, 64])


@tf.function(jit_compile=True)
def train_step(x):
    for _ in range(4):
        x = tf.tanh(x @ tf.ones((64, 64)))
    return tf.reduce_sum(x @ tf.transpose(table))


for rows in (4, 4, 4, 9, 9, 4):
    table.assign(tf.ones((rows, 64)))
    train_step(tf.ones((8, 64)))
