"""Decodes with a recurrent cell step by step, in one tf.function."""

import tensorflow as tf


class Decoder(tf.Module):
    def __init__(self, vocabulary=20, width=16, max_length=120):
        super().__init__()
        self.max_length = max_length
        self.embeddings = tf.Variable(tf.random.stateless_normal((vocabulary, width), (0, 1)))
        self.recurrent = tf.Variable(tf.random.stateless_normal((2 * width, width), (0, 2)) / 6.0)
        self.project = tf.Variable(tf.random.stateless_normal((width, vocabulary), (0, 3)))

    def cell(self, token, state):
        return tf.tanh(tf.concat([tf.gather(self.embeddings, token), state], -1) @ self.recurrent)

    @tf.function
    def decode(self, token, state):
        score = tf.zeros(tf.shape(token))
        for _ in range(self.max_length):
            state = self.cell(token, state)
            logits = tf.nn.log_softmax(state @ self.project)
            token = tf.argmax(logits, -1, output_type=tf.int32)
            score += tf.reduce_max(logits, -1)
        return score


decoder = Decoder()
for batch in range(4):
    start = tf.fill([8], batch)
    score = decoder.decode(start, tf.zeros((8, 16)))
    print("value", float(tf.reduce_mean(score)))
# /// thread
# address = "https://github.com/tensorflow/tensorflow/issues/38628"
# asked = """\
# The first call of a decoding loop takes minutes, and its graph has many megabytes; as a tf.while_loop it is \
# instant."""
# answer = """\
# AutoGraph makes a loop of what iterates over a tensor: range is Python's, and is unrolled. Iterate over \
# tf.range."""
# stack = "tensorflow"
# mechanism = "unrolled"
# argument = "range(self.max_length)"
# before = ""
# after = ""
# line = 20
# lines_accepted = [31, 18]
# compiles = [120, 1]
# counted = "copies of the loop's body in the graph of decode (MatMul operations, halved)"
# cure = "Iterate over tf.range."
# cure_lines = [
#   {line = 20, code = "        for _ in tf.range(self.max_length):"},
# ]
# cure_environment = {}
# losses = "close"
# ///
