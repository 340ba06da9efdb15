"""Fine-tunes a detector on images that have different numbers of boxes."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf

kernel = tf.Variable(tf.random.stateless_normal((12, 4), (0, 1)) * 0.1)


@tf.function
def train_step(features, boxes):
    with tf.GradientTape() as tape:
        predicted = tf.reshape(features @ kernel, (-1, 4))
        distances = tf.reduce_sum(tf.abs(predicted[:, None] - boxes[None]), -1)
        loss = tf.reduce_sum(tf.reduce_min(distances, 0)) / 8
    kernel.assign_sub(0.01 * tape.gradient(loss, kernel))
    return loss


generator = np.random.default_rng(0)
for count in (2, 5, 3, 7, 4, 6):
    features = tf.constant(generator.standard_normal((10, 12)), tf.float32)
    boxes = tf.constant(generator.random((count, 4)), tf.float32)
    print("loss", repr(float(train_step(features, boxes))))
# /// thread
# address = "https://github.com/tensorflow/tensorflow/issues/34025"
# asked = "Training a detector on images with several boxes warns of retracing and fails (asked in 2024)."
# answer = """\
# Each number of boxes is another shape, and another graph: give the function one form (or a shape that is \
# relaxed)."""
# stack = "tensorflow"
# mechanism = "shape"
# argument = "boxes"
# before = "2"
# after = "5"
# line = 13
# lines_accepted = [14, 18, 26, 27]
# compiles = [6, 1]
# counted = "traces of train_step (functions that func_graph_from_py_func traced)"
# cure = "Relax the number of boxes."
# cure_lines = [
#   {line = 13, code = "@tf.function(input_signature=(tf.TensorSpec((10, 12)), tf.TensorSpec((None, 4))))"},
# ]
# cure_environment = {}
# losses = "close"
# ///
