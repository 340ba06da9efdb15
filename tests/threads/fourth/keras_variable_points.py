"""Predicts for point clouds of different sizes, one after the other."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np

keras.utils.set_random_seed(0)
inputs = keras.Input((None, 3))
hidden = keras.layers.Dense(8, activation="relu", use_bias=False)(inputs)
model = keras.Model(inputs, keras.layers.Dense(1)(keras.layers.GlobalMaxPooling1D()(hidden)))

generator = np.random.default_rng(0)
for points in (20, 33, 41, 26):
    cloud = generator.normal(size=(1, points, 3)).astype("float32")
    print("value", repr(float(model.predict_on_batch(cloud)[0, 0])))
# /// thread
# address = "https://github.com/keras-team/keras/issues/20369"
# asked = "TensorFlow is slow: retracing for inputs with a flexible dimension."
# answer = """\
# Padding; depending on the kind of input you may also be able to bucket your inputs by shared dimensions."""
# stack = "tensorflow"
# mechanism = "shape"
# argument = "data"
# before = "(1, 20, 3)"
# after = "(1, 33, 3)"
# line = 18
# lines_accepted = [16, 17]
# compiles = [2, 1]
# counted = "traces of the predict function"
# cure = "Pad the clouds to one size with zeros."
# cure_lines = [
#   {line = 17, code = """
#     cloud = generator.normal(size=(1, points, 3)).astype("float32")
#     cloud = np.pad(cloud, ((0, 0), (0, 48 - points), (0, 0)))"""},
# ]
# cure_environment = {}
# losses = "close"
# ///
