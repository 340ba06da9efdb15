"""Finds the minimum of a parabola with a compiled function that makes its optimizer itself."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import tensorflow as tf

position = tf.Variable(0.0)


@tf.function
def descend():
    optimizer = keras.optimizers.Adam(0.1)
    with tf.GradientTape() as tape:
        loss = (position - 1.0) * (position - 3.0)
    optimizer.apply_gradients([(tape.gradient(loss, position), position)])
    return loss


for _ in range(4):
    print("loss", repr(float(descend())))
# /// thread
# address = "https://github.com/tensorflow/tensorflow/issues/27120"
# asked = """\
# A compiled function that makes an optimizer fails: variables on a call that is not the first."""
# answer = """\
# The optimizer creates variables internally, so it has the same limitation; pull it out of the function."""
# stack = "tensorflow"
# mechanism = "failed_compile"
# argument = "keras.optimizers.Adam(0.1)"
# before = ""
# after = ""
# line = 15
# lines_accepted = [13, 14, 18, 23]
# compiles = [0, 1]
# counted = "traces of descend that succeed"
# cure = "Make the optimizer before the function."
# cure_lines = [
#   {line = 13, code = """
# optimizer = keras.optimizers.Adam(0.1)
#
#
# @tf.function"""},
#   {line = 15, code = ""},
# ]
# cure_environment = {}
# losses = "other"
# ///
