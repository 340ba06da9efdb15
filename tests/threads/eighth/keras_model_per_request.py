"""Predicts for requests, each of which loads the model."""

import os
import tempfile

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np

keras.utils.set_random_seed(0)
PATH = os.path.join(tempfile.mkdtemp(), "model.keras")


def save_model():
    model = keras.Sequential(
        [keras.Input((12,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(3, activation="softmax")]
    )
    model.save(PATH)


def get_predictions(features):
    model = keras.models.load_model(PATH)
    return model.predict(features, verbose=0)


save_model()
rng = np.random.default_rng(0)
for _ in range(6):
    print("value", repr(float(get_predictions(rng.random((1, 12), "float32")).max())))
# /// thread
# address = "https://github.com/PyDataBlog/fastapi-model-deployment/issues/1"
# asked = "It seems that get_predictions loads the Keras model every time it is called: would once be better?"
# answer = "Yes, load it once (and with it its predict function is traced once)."
# stack = "tensorflow"
# mechanism = "new_function"
# argument = "one_step_on_data_distributed"
# before = ""
# after = ""
# line = 23
# lines_accepted = [24, 30]
# compiles = [6, 1]
# counted = "traces of one_step_on_data_distributed (functions that func_graph_from_py_func traced)"
# cure = "Load it once."
# cure_lines = [
#   {line = 22, code = """
# import functools
# load_model = functools.cache(keras.models.load_model)
# def get_predictions(features):"""},
#   {line = 23, code = "    model = load_model(PATH)"},
# ]
# cure_environment = {}
# losses = "close"
# ///
