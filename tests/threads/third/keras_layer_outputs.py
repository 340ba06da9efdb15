"""Reads the outputs of a hidden layer for one profile after the other, through a model that ends at that layer."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np

keras.utils.set_random_seed(0)
inputs = keras.Input((6,))
hidden = keras.layers.Dense(8, activation="relu", name="hidden")(inputs)
model = keras.Model(inputs, keras.layers.Dense(2)(hidden))


def layer_output(model, name, x):
    part = keras.Model(model.inputs, model.get_layer(name).output)
    return part.predict(x, verbose=0)


for profile in range(5):
    x = np.linspace(-1.0, 1.0, 24, dtype="float32").reshape(4, 6) * (profile + 1)
    print("value", repr(float(layer_output(model, "hidden", x).mean())))
# /// thread
# address = "https://github.com/fastmachinelearning/hls4ml/issues/359"
# asked = "Retracing warnings when a model is profiled layer by layer."
# answer = "The intermediate model is made anew for every inference; make it once."
# stack = "tensorflow"
# mechanism = "new_function"
# argument = "part"
# before = ""
# after = ""
# line = 17
# lines_accepted = [16, 18]
# compiles = [5, 1]
# counted = "traces of predict functions"
# cure = "Keep the intermediate models in a cache."
# cure_lines = [
#   {line = 16, code = """
# import functools
#
#
# @functools.cache
# def ending_at(name):
#     return keras.Model(model.inputs, model.get_layer(name).output)
#
#
# def layer_output(model, name, x):"""},
#   {line = 17, code = "    part = ending_at(name)"},
# ]
# cure_environment = {}
# losses = "equal"
# ///
