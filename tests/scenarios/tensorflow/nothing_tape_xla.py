"""For XLA without a tape, then under one: a forward and a backward of its own, and no recompile."""
# expect: nothing

import tensorflow as tf

w = tf.Variable(tf.ones((64, 64)))


@tf.function(jit_compile=True)
def forward(x):
    return tf.reduce_sum(tf.tanh(x @ w))


for _ in range(3):
    forward(tf.ones((4, 64)))
for _ in range(3):
    with tf.GradientTape() as tape:
        loss = forward(tf.ones((4, 64)))
    tape.gradient(loss, w)
