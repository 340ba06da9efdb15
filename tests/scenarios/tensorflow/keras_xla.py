"""Keras for XLA: the last batch of the first epoch is smaller, and XLA compiles the whole step again."""
# expect: shape iterator[…][0] f32[8,16] -> f32[4,16]
# finding: second_trace

import keras
import numpy as np

model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(64), keras.layers.Dense(1)])
model.compile("adam", "mse", jit_compile=True)
x, y = np.ones((36, 16), "float32"), np.ones((36, 1), "float32")
model.fit(x, y, batch_size=8, epochs=2, verbose=0)
