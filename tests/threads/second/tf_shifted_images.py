"""Feed a small model with images that are shifted in brightness by a random amount in the input pipeline."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import random

import numpy as np
import tensorflow as tf


def augment(image, label):
    shift = random.uniform(-0.2, 0.2)
    return tf.clip_by_value(image + shift, 0.0, 1.0), label


random.seed(0)
tf.random.set_seed(0)
images = np.full((6, 8, 8, 1), 0.5, np.float32)
labels = np.arange(6) % 2
dataset = tf.data.Dataset.from_tensor_slices((images, labels)).map(augment)

for image, label in dataset:
    print("value", repr(float(tf.reduce_mean(image))))
# /// thread
# address = "https://github.com/tensorflow/tensorflow/issues/60848"
# asked = "A random augmentation in tf.data.Dataset.map is the same for all elements."
# answer = """\
# The mapped function is traced once, where random.random() and np.random.rand() become constants; use \
# TensorFlow's random ops (or tf.py_function)."""
# stack = "tensorflow"
# mechanism = "baked_constant"
# argument = "shift"
# before = ""
# after = ""
# line = 14
# lines_accepted = [13, 15, 22, 24]
# compiles = [1, 1]
# counted = "traces of augment by Dataset.map (six images; with the cure the one trace holds a random op)"
# cure = "Draw the shift with tf.random.uniform."
# cure_lines = [
#   {line = 14, code = "    shift = tf.random.uniform((), -0.2, 0.2)"},
# ]
# cure_environment = {}
# losses = "other"
# ///
