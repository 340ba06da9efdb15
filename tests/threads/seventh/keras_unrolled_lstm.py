"""Trains a recurrent model of a sensor's signal, with the recurrence unrolled."""

import keras
import numpy as np


class Window(keras.utils.PyDataset):
    """Windows of a sine, and the value after each."""

    def __init__(self, steps, batches=3, batch_size=8):
        super().__init__()
        self.steps, self.batches, self.batch_size = steps, batches, batch_size

    def __len__(self):
        return self.batches

    def __getitem__(self, index):
        starts = np.arange(self.batch_size) + index * self.batch_size
        times = 0.1 * (starts[:, None] + np.arange(self.steps + 1))
        signal = np.sin(times).astype("float32")
        return signal[:, :-1, None], signal[:, -1:]


def build(steps, units=12):
    return keras.Sequential(
        [
            keras.layers.Input((steps, 1)),
            keras.layers.LSTM(units, unroll=True),
            keras.layers.Dense(1),
        ]
    )


keras.utils.set_random_seed(0)
model = build(steps=40)
model.compile(optimizer=keras.optimizers.Adam(0.01), loss="mse", jit_compile=False)
history = model.fit(Window(40), epochs=2, verbose=0, shuffle=False)
for loss in history.history["loss"]:
    print("loss", repr(loss))
# /// thread
# address = "https://github.com/tensorflow/tensorflow/issues/34920"
# asked = "An unrolled LSTM takes 13 seconds in its first call under tf.function, and 0.2 without."
# answer = """\
# unroll=True repeats the cell's operations for each of the time steps in the graph, which takes its time to \
# build and to optimize; unroll short sequences only."""
# stack = "tensorflow"
# mechanism = "unrolled"
# argument = "unroll=True"
# before = ""
# after = ""
# line = 28
# lines_accepted = [35, 37]
# compiles = [40, 1]
# counted = """\
# copies of the LSTM cell's matrix products in the graph of the train step (as it is, as many as time steps)"""
# cure = "Do not unroll."
# cure_lines = [
#   {line = 28, code = "            keras.layers.LSTM(units, unroll=False),"},
# ]
# cure_environment = {}
# losses = "close"
# ///
