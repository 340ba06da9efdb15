"""Trains a policy by imitation; the step knows the epoch, for its warm-up."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import tensorflow as tf

tf.random.set_seed(0)
weights = tf.Variable(tf.random.stateless_normal((6, 4), (0, 1)) * 0.3)
mean_loss = tf.Variable(0.0)


@tf.function
def train(images, labels, epoch):
    with tf.GradientTape() as tape:
        predictions = tf.tanh(images @ weights)
        loss = tf.reduce_mean(tf.square(predictions - labels))
    rate = 0.1 * tf.minimum(1.0, (tf.cast(epoch, tf.float32) + 1) / 4)
    weights.assign_sub(rate * tape.gradient(loss, weights))
    mean_loss.assign(0.9 * mean_loss + 0.1 * loss)
    return loss


images = tf.random.stateless_normal((2, 16, 6), (0, 2))
labels = tf.tanh(images[..., :4] - images[..., 2:])
for epoch in range(8):
    for batch in range(2):
        loss = train(images[batch], labels[batch], epoch)
    print("loss", repr(float(loss)))
# /// thread
# address = "https://github.com/microsoft/AirSim-Drone-Racing-VAE-Imitation/issues/10"
# asked = "A static checker reports that the training is traced at each epoch."
# answer = """\
# The epoch is a Python number, of which each value is a new graph: pass a tensor."""
# stack = "tensorflow"
# mechanism = "python_scalar"
# argument = "epoch"
# before = "0"
# after = "1"
# line = 29
# lines_accepted = [14, 15, 27]
# compiles = [8, 1]
# counted = "traces of train (functions that func_graph_from_py_func traced)"
# cure = "Pass a tensor."
# cure_lines = [
#   {line = 29, code = "        loss = train(images[batch], labels[batch], tf.constant(epoch))"},
# ]
# cure_environment = {}
# losses = "close"
# ///
