"""Keras for XLA, on a data set: the batch comes from an iterator, and the last one is smaller."""
# expect: shape iterator[…][0] f32[8,16] -> f32[4,16]

import keras
import tensorflow as tf

model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(64), keras.layers.Dense(1)])
model.compile("sgd", "mse", jit_compile=True)
data = tf.data.Dataset.from_tensor_slices((tf.ones((36, 16)), tf.ones((36, 1)))).batch(8)
model.fit(data, epochs=2, verbose=0)
