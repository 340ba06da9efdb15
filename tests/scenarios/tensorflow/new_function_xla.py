"""Two functions of one body share nothing: the second is traced, and compiled by XLA, as the first was."""
# expect: new_function - "step #1" -> "step #2"

import tensorflow as tf


def step(x):
    return tf.reduce_sum(tf.tanh(x @ tf.ones((32, 32))))


for function in (tf.function(step, jit_compile=True), tf.function(step, jit_compile=True)):
    for _ in range(2):
        function(tf.ones((4, 32)))
