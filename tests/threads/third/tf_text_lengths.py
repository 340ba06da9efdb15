"""Embeds and classifies texts of different lengths with a function that is compiled to a graph."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import tensorflow as tf

tf.random.set_seed(0)
table = tf.Variable(tf.random.normal((50, 8)))
weights = tf.Variable(tf.random.normal((8, 3)))


@tf.function
def classify(tokens):
    embedded = tf.gather(table, tokens)
    return tf.nn.softmax(tf.linalg.matvec(weights, tf.reduce_mean(embedded, axis=0), transpose_a=True))


for length in (3, 7, 5, 9, 12, 4):
    probabilities = classify(tf.range(length))
    print("value", repr(float(probabilities[0])))
# /// thread
# address = "https://github.com/France-Travail/gabarit/pull/162"
# asked = "The memory of a served model grows with each text."
# answer = """\
# tf.function makes a graph for each shape of the texts that are sent; set reduce_retracing=True."""
# stack = "tensorflow"
# mechanism = "shape"
# argument = "tokens"
# before = "i32[3]"
# after = "i32[7]"
# line = 14
# lines_accepted = [15, 21]
# compiles = [6, 2]
# counted = "traces of classify (experimental_get_tracing_count)"
# cure = "Decorate with tf.function(reduce_retracing=True)."
# cure_lines = [
#   {line = 14, code = "@tf.function(reduce_retracing=True)"},
# ]
# cure_environment = {}
# losses = "equal"
# ///
