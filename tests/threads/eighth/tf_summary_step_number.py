"""Trains a regression in a step that also writes a summary for TensorBoard."""

import os
import tempfile

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import tensorflow as tf

writer = tf.summary.create_file_writer(tempfile.mkdtemp())
tf.random.set_seed(0)
weights = tf.Variable(tf.zeros((4, 1)))
bias = tf.Variable(0.0)


@tf.function
def train_step(x, y, step):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(x @ weights + bias - y))
    for variable, gradient in zip((weights, bias), tape.gradient(loss, (weights, bias)), strict=True):
        variable.assign_sub(0.1 * gradient)
    with writer.as_default():
        tf.summary.scalar("loss", loss, step=step)
    return loss


x = tf.random.normal((32, 4))
y = tf.reduce_sum(x, 1, keepdims=True)
for step in range(8):
    print("loss", repr(float(train_step(x, y, step))))
writer.flush()
# /// thread
# address = "https://github.com/tensorflow/tensorflow/issues/34481"
# asked = "The example of tf.summary within a tf.function warns of retracing."
# answer = "The step is a Python number, and each is traced: convert it to a tensor of int64 before."
# stack = "tensorflow"
# mechanism = "python_scalar"
# argument = "step"
# before = "0"
# after = "1"
# line = 30
# lines_accepted = [29, 17]
# compiles = [8, 1]
# counted = "traces of train_step (functions that func_graph_from_py_func traced)"
# cure = "Pass the step as a tensor."
# cure_lines = [
#   {line = 30, code = "    print(\"loss\", repr(float(train_step(x, y, tf.constant(step, tf.int64)))))"},
# ]
# cure_environment = {}
# losses = "close"
# ///
