"""A model that is trained, saved, loaded and served: in batches as they come, by itself and compiled for XLA."""

import tempfile

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(0)
x = np.random.default_rng(0).normal(size=(128, 64)).astype(np.float32)
y = x.sum(1, keepdims=True)
trained = keras.Sequential([keras.Input((64,)), keras.layers.Dense(128, activation="relu"), keras.layers.Dense(1)])
trained.compile("adam", "mse")
trained.fit(x, y, batch_size=32, epochs=2, verbose=2)

with tempfile.TemporaryDirectory() as folder:
    trained.export(folder, verbose=False)
    loaded = tf.saved_model.load(folder)

serve = tf.function(loaded.serve, jit_compile=True)
for size in (1, 2, 4, 2, 1):
    rows = tf.constant(x[:size])
    plain, compiled = loaded.serve(rows), serve(rows)
    print(size, float(tf.reduce_max(abs(plain - compiled))) < 1e-4)

try:
    loaded.serve(tf.ones((2, 32)))
except (TypeError, ValueError) as error:
    print("refused:", type(error).__name__)
