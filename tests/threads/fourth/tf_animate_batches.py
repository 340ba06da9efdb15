"""Animates one image after the other; the function that does so defines what runs on each batch of frames."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import tensorflow as tf

tf.random.set_seed(0)
driving = tf.random.normal((12, 4, 4))


def animate(source, frames):
    @tf.function
    def next_batch(start):
        return tf.tanh(source + frames[start : start + 4])

    return tf.concat([next_batch(tf.constant(start)) for start in range(0, 12, 4)], 0)


for picture in range(4):
    source = tf.random.normal((4, 4), seed=picture)
    print("value", repr(float(tf.reduce_mean(animate(source, driving)))))
# /// thread
# address = "https://github.com/lshug/first-order-model-tf/issues/22"
# asked = "animate is called in a loop, and its tf.functions are retraced each time."
# answer = """\
# The tf.functions are defined in animate, so each call makes new ones, each with a graph of its own; define \
# them outside."""
# stack = "tensorflow"
# mechanism = "new_function"
# argument = "next_batch"
# before = ""
# after = ""
# line = 15
# lines_accepted = [13, 14, 18]
# compiles = [4, 1]
# counted = "traces of next_batch"
# cure = "Define it outside, with what it reads as arguments."
# cure_lines = [
#   {line = 13, code = """
# @tf.function
# def next_batch(source, frames, start):
#     return tf.tanh(source + frames[start : start + 4])
#
#
# def animate(source, frames):"""},
#   {line = 14, code = ""},
#   {line = 15, code = ""},
#   {line = 16, code = ""},
#   {line = 18, code = """
#     return tf.concat([next_batch(source, frames, tf.constant(start)) for start in range(0, 12, 4)], 0)"""},
# ]
# cure_environment = {}
# losses = "equal"
# ///
