"""Encodes batches of sentences that are padded to the longest of each batch, in a function that XLA compiles."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import tensorflow as tf

tf.random.set_seed(0)
table = tf.Variable(tf.random.normal((40, 8)))


@tf.function(jit_compile=True)
def encode(tokens):
    mask = tf.cast(tokens > 0, tf.float32)[..., None]
    return tf.reduce_sum(tf.gather(table, tokens) * mask, axis=1)


for lengths in ((3, 5, 4), (6, 2, 7), (9, 4, 8), (5, 6, 3)):
    sentences = [[1 + (7 * at + length) % 39 for at in range(length)] for length in lengths]
    tokens = tf.ragged.constant(sentences).to_tensor()
    print("value", repr(float(tf.reduce_sum(encode(tokens)))))
# /// thread
# address = "https://github.com/keras-team/keras-hub/issues/662"
# asked = """\
# Allow preprocessing that pads each batch as little as possible; would it interfere with XLA?"""
# answer = """\
# Pure dynamic padding causes too many XLA recompiles because the shape keeps changing; pad to set sizes \
# (buckets)."""
# stack = "tensorflow"
# mechanism = "shape"
# argument = "tokens"
# before = "(3, 5)"
# after = "(3, 7)"
# line = 14
# lines_accepted = [13, 21]
# compiles = [4, 1]
# counted = "traces of encode"
# cure = "Pad to a length that holds all."
# cure_lines = [
#   {line = 21, code = "    tokens = tf.ragged.constant(sentences).to_tensor(shape=(None, 16))"},
# ]
# cure_environment = {}
# losses = "close"
# ///
