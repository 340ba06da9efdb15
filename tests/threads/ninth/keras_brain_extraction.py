"""Extracts the brain from one scan after the other."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np


def unet(shape, seed):
    initializer = keras.initializers.GlorotUniform(seed)
    scan = keras.Input(shape)
    hidden = keras.layers.Conv2D(4, 3, padding="same", activation="relu", kernel_initializer=initializer)(scan)
    mask = keras.layers.Conv2D(1, 1, activation="sigmoid", kernel_initializer=initializer)(hidden)
    return keras.Model(scan, mask)


def brain_extraction(scan):
    model = unet((16, 16, 1), seed=3)
    return model.predict(scan[None, :, :, None], verbose=0)[0, :, :, 0]


generator = np.random.default_rng(0)
for _ in range(6):
    scan = generator.random((16, 16), dtype=np.float32)
    print("value", repr(float(brain_extraction(scan).mean())))
# /// thread
# address = "https://github.com/ANTsX/ANTsPyNet/issues/138"
# asked = "brain_extraction in a loop warns of retracing. Can its functions be reused?"
# answer = """\
# Each call makes the model, and with it its predict function, anew: keep the model (the asker's own remedy)."""
# stack = "tensorflow"
# mechanism = "new_function"
# argument = "one_step_on_data_distributed"
# before = ""
# after = ""
# line = 20
# lines_accepted = [11, 19, 21, 27]
# compiles = [6, 1]
# counted = "traces of one_step_on_data_distributed (functions that func_graph_from_py_func traced)"
# cure = "Make the model once."
# cure_lines = [
#   {line = 19, code = '''
# MODEL = unet((16, 16, 1), seed=3)
#
#
# def brain_extraction(scan):'''},
#   {line = 20, code = "    model = MODEL"},
# ]
# cure_environment = {}
# losses = "close"
# ///
