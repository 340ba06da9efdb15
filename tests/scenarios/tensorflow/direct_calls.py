"""A model that Keras compiles is called itself: each layer runs operation by operation."""
# expect: nothing
# finding: uncompiled

import keras
import numpy as np

model = keras.Sequential([keras.layers.Dense(2), keras.layers.Dense(1)])
model.compile("sgd", "mse")
x = np.ones((8, 4), "float32")
for _ in range(6):
    model(x)
