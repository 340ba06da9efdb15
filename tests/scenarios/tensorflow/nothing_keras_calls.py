"""Keras by single batches, then fit: each its own function, and a layer that is no longer trained changes neither."""
# expect: nothing
# finding: stale_capture

import keras
import numpy as np

model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2), keras.layers.Dense(1)])
model.compile("sgd", "mse")
x, y = np.ones((8, 4), "float32"), np.ones((8, 1), "float32")
for _ in range(2):
    model.train_on_batch(x, y)
model.fit(x, y, batch_size=4, verbose=0)
model.layers[0].trainable = False
model.fit(x, y, batch_size=4, verbose=0)
