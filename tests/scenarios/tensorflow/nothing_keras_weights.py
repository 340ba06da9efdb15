"""The list of loss weights that compile() was given stays as it is: no finding."""
# expect: nothing
# finding: second_trace

import keras
import numpy as np

inputs = keras.Input((2,))
model = keras.Model(inputs, [keras.layers.Dense(1)(inputs), keras.layers.Dense(1)(inputs)])
model.compile(optimizer="sgd", loss=["mse", "mse"], loss_weights=[1.0, 0.5])
for _ in range(3):
    model.train_on_batch(np.ones((4, 2), "float32"), [np.ones((4, 1), "float32")] * 2)
