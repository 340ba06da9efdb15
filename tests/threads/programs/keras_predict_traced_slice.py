"""Cut a Keras model's input at a position that comes with the data and repeat the rest (JAX backend)."""

import os

os.environ["KERAS_BACKEND"] = "jax"

import jax.numpy as jnp
import keras
import numpy as np


class Cutter(keras.Model):
    def call(self, inputs):
        x, pos = inputs
        cut = x[:, : pos[0], :]
        return jnp.repeat(cut, 2, axis=1)


x = np.arange(24, dtype="float32").reshape(1, 6, 4)
model = Cutter()
model.compile()
for position in [2, 4]:
    out = model.predict((x, np.array([position])), verbose=0)
    print("value", repr(float(np.sum(out))))
# /// thread
# address = "https://github.com/keras-team/keras/issues/19639"
# asked = "A model that slices its input at a position from its inputs works when called and fails in predict (JAX)."
# answer = "predict compiles the call, where the position is a tracer; compile(jit_compile=False) and use .item()."
# stack = "jax"
# mechanism = "failed_compile"
# argument = "pos[0]"
# before = ""
# after = ""
# line = 15
# lines_accepted = [13, 14, 20, 21, 23]
# compiles = [0, 0]
# counted = "compiled programs of predict: its trace raises an IndexError; with the cure it runs eagerly"
# cure = "Turn Keras' jit off for this model and read the position as a Python number."
# cure_lines = [
#   {line = 15, code = "        cut = x[:, : pos[0].item(), :]"},
#   {line = 21, code = "model.compile(jit_compile=False)"},
# ]
# cure_environment = {}
# losses = "other"
# ///
