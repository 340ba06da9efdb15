"""Refit one small model each time a data point arrives, with a minimizer that compiles its loss."""

import tensorflow as tf


def minimize(closure, variables, steps):
    @tf.function
    def loss_and_grads():
        with tf.GradientTape() as tape:
            loss = closure()
        return loss, tape.gradient(loss, variables)

    for _ in range(steps):
        loss, grads = loss_and_grads()
        for variable, grad in zip(variables, grads, strict=True):
            variable.assign_sub(0.1 * grad)
    return loss


weight = tf.Variable(tf.zeros([2]))
data_x = tf.Variable(tf.zeros([6, 2]))
data_y = tf.Variable(tf.zeros([6]))


def training_loss():
    return tf.reduce_mean(tf.square(tf.linalg.matvec(data_x, weight) - data_y))


for arrival in range(6):
    data_x[arrival].assign([1.0, 0.1 * arrival])
    data_y[arrival].assign(2.0 - 0.3 * arrival)
    loss = minimize(training_loss, [weight], steps=3)
    print("loss", repr(float(loss)))
# /// thread
# address = "https://github.com/GPflow/GPflow/pull/2074"
# asked = "Every call of minimize on the same loss and variables spends time on a new graph and keeps memory."
# answer = "minimize makes a new tf.function at each call; keep the compiled function and use it again."
# stack = "tensorflow"
# mechanism = "new_function"
# argument = "loss_and_grads"
# before = ""
# after = ""
# line = 7
# lines_accepted = [6, 8, 14, 32]
# compiles = [6, 1]
# counted = "traces of loss_and_grads (one per tf.function object; experimental_get_tracing_count of each is 1)"
# cure = "Build the tf.function once outside minimize and hand it in."
# cure_lines = [
#   {line = 6, code = "def compile_loss(closure, variables):"},
#   {line = 12, code = "\n    return loss_and_grads\n\n\ndef minimize(loss_and_grads, variables, steps):"},
#   {line = 29, code = "loss_and_grads = compile_loss(training_loss, [weight])\nfor arrival in range(6):"},
#   {line = 32, code = "    loss = minimize(loss_and_grads, [weight], steps=3)"},
# ]
# cure_environment = {}
# losses = "equal"
# ///
