"""Trains a recurrent network of stream temperatures; it is compiled to run eagerly, for the sake of its states."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np
import tensorflow as tf


class StreamModel(keras.Model):
    def __init__(self, hidden=8):
        super().__init__()
        self.hidden = hidden
        self.cell = keras.layers.LSTM(hidden, return_sequences=True)
        self.dense = keras.layers.Dense(1)

    def call(self, inputs):
        batch_size = inputs.shape[0] or tf.shape(inputs)[0]
        state = tf.zeros((batch_size, self.hidden))
        return self.dense(self.cell(inputs, initial_state=[state, state]))


keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
x = rng.normal(size=(96, 12, 3)).astype("float32")
y = x.sum(-1, keepdims=True)
model = StreamModel()
model.compile(optimizer=keras.optimizers.Adam(0.01), loss="mse", run_eagerly=True)
history = model.fit(x, y, batch_size=12, epochs=3, shuffle=False, verbose=0)
for loss in history.history["loss"]:
    print("loss", repr(loss))
# /// thread
# address = "https://github.com/USGS-R/river-dl/pull/109"
# asked = "Does run_eagerly=True slow the model down, and must we set it?"
# answer = """\
# Each training step is three times slower with it. With tf.shape for the batch size the model runs without, so leave \
# it at its default."""
# stack = "tensorflow"
# mechanism = "silent_eager"
# argument = "run_eagerly"
# before = ""
# after = ""
# line = 30
# lines_accepted = [31]
# compiles = [0, 2]
# counted = "traces of one_step_on_data (functions that func_graph_from_py_func traced)"
# cure = "Do not run eagerly."
# cure_lines = [
#   {line = 30, code = "model.compile(optimizer=keras.optimizers.Adam(0.01), loss=\"mse\")"},
# ]
# cure_environment = {}
# losses = "close"
# ///
