"""A global changes that a layer of the user's has read in predict()."""
# expect: nothing
# finding: stale_capture

import keras
import numpy as np

halved = False


class Halved(keras.layers.Layer):
    def call(self, x):
        return x / 2 if halved else x


inputs = keras.Input((2,))
model = keras.Model(inputs, Halved()(inputs))
for value in (False, True):
    halved = value
    model.predict(np.ones((4, 2), "float32"), verbose=0)
