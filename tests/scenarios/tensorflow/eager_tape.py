"""A training step of the program's own without an optimizer, which no function is around."""
# expect: nothing
# finding: uncompiled

import tensorflow as tf

w = tf.Variable([[1.0], [2.0]])


def train_step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x @ w) ** 2)
    w.assign_sub(0.1 * tape.gradient(loss, w))
    return loss


for _ in range(4):
    train_step(tf.ones((4, 2)))
