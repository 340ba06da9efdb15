"""Tags sequences of many lengths by a function around a Keras model."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(0)
inputs = keras.Input((None, 8))
x = keras.layers.Conv1D(16, 5, padding="same", activation="relu")(inputs)
model = keras.Model(inputs, keras.layers.Conv1D(3, 5, padding="same", activation="softmax")(x))


@tf.function
def predict(t):
    return model(t, training=False)


rng = np.random.default_rng(0)
for length in (20, 33, 47, 20, 58, 71, 90):
    tags = predict(tf.constant(rng.normal(size=(1, length, 8)), tf.float32))
    print("value", repr(float(tf.reduce_max(tags))))
# /// thread
# address = "https://github.com/tensorflow/tensorflow/issues/38561"
# asked = "Inputs of variable lengths are traced each time."
# answer = "Call the model in a tf.function that relaxes the shapes."
# stack = "tensorflow"
# mechanism = "shape"
# argument = "t"
# before = "(1, 20, 8)"
# after = "(1, 33, 8)"
# line = 17
# lines_accepted = [24, 18]
# compiles = [6, 2]
# counted = "traces of predict (functions that func_graph_from_py_func traced)"
# cure = "Relax the shapes (reduce_retracing, as it is named now)."
# cure_lines = [
#   {line = 17, code = "@tf.function(reduce_retracing=True)"},
# ]
# cure_environment = {}
# losses = "close"
# ///
