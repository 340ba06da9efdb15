"""Under a tape, then without."""
# expect: nothing

import tensorflow as tf

w = tf.Variable(tf.ones((3, 3)))


@tf.function
def forward(x):
    return tf.reduce_sum(x @ w)


for _ in range(2):
    forward(tf.ones((2, 3)))
    with tf.GradientTape() as tape:
        loss = forward(tf.ones((2, 3)))
    tape.gradient(loss, w)
