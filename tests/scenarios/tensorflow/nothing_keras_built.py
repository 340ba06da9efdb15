"""Keras with its variables made before: one trace, and what is cleared later throws none away."""
# expect: nothing

import keras
import numpy as np

model = keras.Sequential([keras.layers.Dense(2), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.build((None, 4))
model.optimizer.build(model.trainable_variables)
x, y = np.ones((10, 4), "float32"), np.ones((10, 1), "float32")
model.fit(x, y, batch_size=4, verbose=0)
keras.backend.clear_session()
model.fit(x, y, batch_size=4, verbose=0)
