"""Trains a subclassed Keras model in a loop of its own; model and optimizer make their variables in the first step."""

import keras
import numpy as np
import tensorflow as tf


class Block(keras.layers.Layer):
    def __init__(self, units):
        super().__init__()
        self.dense = keras.layers.Dense(units, activation="relu")
        self.norm = keras.layers.LayerNormalization()

    def call(self, x):
        return self.norm(self.dense(x))


class Model(keras.Model):
    def __init__(self):
        super().__init__()
        self.blocks = [Block(16) for _ in range(3)]
        self.head = keras.layers.Dense(1)

    def call(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


keras.utils.set_random_seed(0)
model = Model()
optimizer = keras.optimizers.Adam(0.01)


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x)[:, 0] - y))
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))
    return loss


rng = np.random.default_rng(0)
x = tf.constant(rng.normal(size=(16, 5)), tf.float32)
y = tf.reduce_sum(x, 1)
for _ in range(5):
    print("loss", repr(float(train_step(x, y))))
# /// thread
# address = "https://github.com/tensorflow/tensorflow/issues/48851"
# asked = "The training step is traced twice, though each call has the same signature."
# answer = """\
# The first trace makes variables, so the function is traced once more without; build the model and the \
# optimizer before."""
# stack = "tensorflow"
# mechanism = "other: the first trace makes variables"
# argument = "train_step"
# before = ""
# after = ""
# line = 32
# lines_accepted = [36, 48, 31, 38]
# compiles = [2, 1]
# counted = "traces of train_step (functions that func_graph_from_py_func traced)"
# cure = "Build both before the first step."
# cure_lines = [
#   {line = 32, code = """
# model(tf.zeros((1, 5)))
# optimizer = keras.optimizers.Adam(0.01)
# optimizer.build(model.trainable_variables)"""},
# ]
# cure_environment = {}
# losses = "close"
# ///
