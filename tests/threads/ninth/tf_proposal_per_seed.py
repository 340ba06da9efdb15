"""Optimizes a proposal by gradient descent, for several seeds."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import tensorflow as tf


def gradient_descent_function():
    @tf.function
    def gradient_descent(location, scale, targets, steps, rate):
        for _ in tf.range(steps):
            with tf.GradientTape() as tape:
                tape.watch((location, scale))
                loss = tf.reduce_mean(tf.square((targets - location) / tf.exp(scale)) / 2 + scale)
            for_location, for_scale = tape.gradient(loss, (location, scale))
            location, scale = location - rate * for_location, scale - rate * for_scale
        return location, scale, loss

    return gradient_descent


for seed in range(6):
    targets = tf.random.stateless_normal((64,), (seed, 1)) * 2.0 + 3.0
    descend = gradient_descent_function()
    location, scale, loss = descend(tf.constant(0.0), tf.constant(0.0), targets, tf.constant(20), tf.constant(0.1))
    print("loss", repr(float(loss)))
# /// thread
# address = "https://github.com/JTT94/filterflow/issues/21"
# asked = "A static checker reports a performance issue: a graph for each turn of a loop."
# answer = """\
# The tf.function is defined in a function that is called in the loop: make it once, outside."""
# stack = "tensorflow"
# mechanism = "new_function"
# argument = "gradient_descent"
# before = ""
# after = ""
# line = 26
# lines_accepted = [11, 12, 27]
# compiles = [6, 1]
# counted = "traces of gradient_descent (functions that func_graph_from_py_func traced)"
# cure = "Make it before the loop."
# cure_lines = [
#   {line = 24, code = '''
# descend = gradient_descent_function()
# for seed in range(6):'''},
#   {line = 26, code = ""},
# ]
# cure_environment = {}
# losses = "close"
# ///
