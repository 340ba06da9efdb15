"""Trains a classifier whose learning rate a function of its last accuracy gives, batch by batch."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np
from keras import layers


def determine_learning_rate(accuracy):
    return 0.1 * (1.0 - 0.5 * accuracy)


def build_model(learning_rate):
    model = keras.Sequential(
        [keras.Input((8, 8, 1)), layers.Conv2D(4, 3, activation="relu"), layers.Flatten(), layers.Dense(3)]
    )
    compile_model(model, learning_rate)
    return model


def compile_model(model, learning_rate):
    model.compile(
        optimizer=keras.optimizers.SGD(learning_rate),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )


keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
images, labels = rng.random((96, 8, 8, 1), "float32"), rng.integers(0, 3, 96)
model = build_model(0.1)
for start in range(0, 96, 16):
    batch = slice(start, start + 16)
    loss, accuracy = model.train_on_batch(images[batch], labels[batch])
    compile_model(model, determine_learning_rate(float(accuracy)))
    print("loss", repr(float(loss)))
# /// thread
# address = "https://github.com/keras-team/keras/issues/4104"
# asked = "A function gives the learning rate of the next batch: must I compile 10,000 times for 10,000 batches?"
# answer = "No: change the optimizer's learning rate before each batch (as a callback does), and compile once."
# stack = "tensorflow"
# mechanism = "new_function"
# argument = "one_step_on_data"
# before = ""
# after = ""
# line = 39
# lines_accepted = [24, 25, 38]
# compiles = [12, 2]
# counted = "traces of one_step_on_data (functions that func_graph_from_py_func traced)"
# cure = "Set the optimizer's learning rate."
# cure_lines = [
#   {line = 39, code = """
#     model.optimizer.learning_rate = determine_learning_rate(float(accuracy))
#     model.reset_metrics()"""},
# ]
# cure_environment = {}
# losses = "close"
# ///
