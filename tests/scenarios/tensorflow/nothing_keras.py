"""Keras, with a last batch that is smaller, and validation: no recompile."""
# expect: nothing

import keras
import numpy as np

model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
x, y = np.ones((10, 4), "float32"), np.ones((10, 1), "float32")
model.fit(x, y, batch_size=4, epochs=2, validation_data=(x, y), verbose=0)
model.evaluate(x, y, verbose=0)
model.predict(x, verbose=0)
