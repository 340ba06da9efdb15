"""Score token sequences of different lengths with an XLA-compiled function that has a fixed input signature."""

import numpy as np
import tensorflow as tf

table = tf.constant(np.random.default_rng(0).normal(size=(50, 4)), dtype=tf.float32)


@tf.function(input_signature=[tf.TensorSpec([None], tf.int32)], jit_compile=True)
def score(tokens):
    vectors = tf.gather(table, tokens)
    weights = tf.cast(tokens > 0, tf.float32)[:, None]
    return tf.reduce_sum(tf.tanh(vectors) * weights)


def batch(tokens):
    return tf.constant(tokens, tf.int32)


for length in [3, 4, 5, 7, 8, 11]:
    tokens = [1 + (5 * i) % 49 for i in range(length)]
    print("value", repr(float(score(batch(tokens)))))
# /// thread
# address = "https://github.com/tensorflow/tensorflow/issues/81896"
# asked = "A function with jit_compile and None in its input_signature is compiled by XLA again for each new length."
# answer = "XLA builds its program for the shapes it gets, whatever the signature says; feed it fixed (padded) shapes."
# stack = "tensorflow"
# mechanism = "shape"
# argument = "tokens"
# before = "int32[3]"
# after = "int32[4]"
# line = 22
# lines_accepted = [9, 10, 17]
# compiles = [6, 1]
# counted = "XLA compiles of score in TF_CPP_VMODULE=device_compilation_profiler=1 (tf.function traces it once)"
# cure = "Pad the tokens with zeros, which have no weight, to one length in batch()."
# cure_lines = [{line = 17, code = "    return tf.constant(tokens + [0] * (16 - len(tokens)), tf.int32)"}]
# cure_environment = {}
# losses = "close"
# ///
