"""Predict with a Keras model, then switch on a debugging flag that makes a layer return its inner activations."""

import keras
import numpy as np

keras.utils.set_random_seed(0)
DEBUG = False


class Block(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(4)

    def call(self, x):
        h = self.dense(x)
        if DEBUG:
            return h
        return keras.ops.relu(h)


inputs = keras.Input((3,))
model = keras.Model(inputs, Block()(inputs))
x = np.random.default_rng(0).normal(size=(5, 3)).astype("float32")
for flag in [False, True, False, True]:
    DEBUG = flag
    out = model.predict(x, verbose=0)
    print("value", repr(float(np.sum(out))))
# /// thread
# address = "https://github.com/keras-team/keras/issues/21530"
# asked = "How can a flag such as debugging reach a layer's call through predict, and would a global flag work?"
# answer = "predict compiles a wrapper of __call__ once and does not see a later change; model(x) runs eagerly."
# stack = "tensorflow"
# mechanism = "global"
# argument = "DEBUG"
# before = "False"
# after = "True"
# line = 17
# lines_accepted = [7, 15, 26, 27]
# compiles = [1, 0]
# counted = "traces of predict's one_step_on_data_distributed; the second and fourth values are wrong without the cure"
# cure = "Call the model directly where the flag changes: model(x, training=False)."
# cure_lines = [{line = 27, code = "    out = model(x, training=False)"}]
# cure_environment = {}
# losses = "other"
# ///
