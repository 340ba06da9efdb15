"""A loss weight in the list that compile() was given changes after the train function was traced."""
# expect: nothing
# finding: stale_capture
# finding: second_trace

import keras
import numpy as np

inputs = keras.Input((2,))
model = keras.Model(inputs, [keras.layers.Dense(1)(inputs), keras.layers.Dense(1)(inputs)])
weights = [1.0, 0.0]
model.compile(optimizer="sgd", loss=["mse", "mse"], loss_weights=weights)
for weight in (0.0, 1.0):
    weights[1] = weight
    model.train_on_batch(np.ones((4, 2), "float32"), [np.ones((4, 1), "float32")] * 2)
