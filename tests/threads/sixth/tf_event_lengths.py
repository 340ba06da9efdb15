"""Integrates a cross section by Monte Carlo, with a matrix element for as many events as pass the cuts."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import tensorflow as tf

SHAT_MIN, MASS = 0.2, 0.5


@tf.function
def phase_space(random):
    x1, x2 = random[:, 0], random[:, 1]
    cosine = 2.0 * random[:, 2] - 1.0
    return x1 * x2, cosine, x1 * x2 > SHAT_MIN


@tf.function
def matrix_element(shat, cosine):
    tau = MASS**2 / shat
    beta = tf.sqrt(tf.maximum(1.0 - tau, 0.0))
    t = 0.5 * (1.0 - beta * cosine)
    return tf.reduce_sum((t**2 + (1.0 - t) ** 2) / tf.square(shat + MASS))


def integrate(iterations, n_events, seed):
    total = 0.0
    for iteration in range(iterations):
        random = tf.random.stateless_uniform((n_events, 3), seed=(seed, iteration))
        shat, cosine, passed = phase_space(random)
        shat, cosine = tf.boolean_mask(shat, passed), tf.boolean_mask(cosine, passed)
        total += float(matrix_element(shat, cosine)) / n_events
    return total / iterations


for seed in range(3):
    print("value", repr(integrate(4, 200, seed)))
# /// thread
# address = "https://github.com/N3PDF/pdfflow/pull/34"
# asked = "Are the functions of single_top.py, decorated with tf.function, traced again for tensors of other lengths?"
# answer = "tf.function alone does not avoid that; give an input_signature."
# stack = "tensorflow"
# mechanism = "shape"
# argument = "shat"
# before = ""
# after = ""
# line = 33
# lines_accepted = [19, 20, 32]
# compiles = [11, 1]
# counted = "traces of matrix_element (functions that func_graph_from_py_func traced)"
# cure = "Give an input_signature."
# cure_lines = [
#   {line = 19, code = "@tf.function(input_signature=[tf.TensorSpec([None])] * 2)"},
# ]
# cure_environment = {}
# losses = "close"
# ///
