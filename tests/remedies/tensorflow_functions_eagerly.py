"""All functions run eagerly, since somebody looked into one of them."""

import tensorflow as tf

w = tf.Variable([0.5, 0.25])


@tf.function
def step(x):
    loss = tf.reduce_sum(tf.tanh(w * x) ** 2)
    w.assign_sub(0.125 * w)
    return loss


tf.config.run_functions_eagerly(True)  # to see values
for _ in range(5):
    print("loss", round(float(step(tf.ones(2))), 3))
