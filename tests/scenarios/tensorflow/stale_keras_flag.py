"""A layer is frozen after the train function was traced."""
# expect: nothing
# finding: stale_capture

import keras
import numpy as np

body = keras.layers.Dense(2)
model = keras.Sequential([keras.Input((2,)), body, keras.layers.Dense(1)])
model.compile(optimizer="sgd", loss="mse")
for trainable in (True, False):
    body.trainable = trainable
    model.train_on_batch(np.ones((4, 2), "float32"), np.ones((4, 1), "float32"))
