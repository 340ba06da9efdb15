"""Read records of several files and give every tensor in them its shape back, one file after the other."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf


def reshape_tensors(records):
    @tf.function
    def reshape_tensor(flat, shape):
        return tf.reshape(flat, shape)

    return [reshape_tensor(flat, shape) for flat, shape in records]


rng = np.random.default_rng(0)
for file in range(6):
    records = [
        (tf.constant(rng.normal(size=12).astype("float32")), tf.constant(shape)) for shape in ([3, 4], [2, 6], [4, 3])
    ]
    tensors = reshape_tensors(records)
    print("value", repr(float(sum(tf.reduce_sum(tensor[0]) for tensor in tensors))))
# /// thread
# address = "https://github.com/JayYip/m3tl/issues/115"
# asked = """\
# A tf.function that is defined in a function which a loop calls makes a new graph every time (retracing \
# warnings)."""
# answer = """\
# Define the decorated function outside, so that one function is used in all the calls; the maintainer asked for \
# that change and merged it (pull request 116)."""
# stack = "tensorflow"
# mechanism = "new_function"
# argument = "reshape_tensor"
# before = ""
# after = ""
# line = 12
# lines_accepted = [11, 13, 16, 25]
# compiles = [6, 1]
# counted = "traces of reshape_tensor in all its tf.functions (experimental_get_tracing_count)"
# cure = "Define the tf.function at the module's level."
# cure_lines = [
#   {line = 11, code = """
# @tf.function
# def reshape_tensor(flat, shape):
#     return tf.reshape(flat, shape)
#
#
# def reshape_tensors(records):"""},
#   {line = 12, code = ""},
#   {line = 13, code = ""},
#   {line = 14, code = ""},
# ]
# cure_environment = {}
# losses = "equal"
# ///
