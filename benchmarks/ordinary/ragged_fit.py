"""Reviews of different lengths, as a ragged tensor, and their stars: Keras' fit, evaluate and predict."""

import keras
import numpy as np
import tensorflow as tf


class BagOfWords(keras.layers.Layer):
    def __init__(self, words, width):
        super().__init__()
        self.words, self.width = words, width

    def build(self, shape):
        self.table = self.add_weight(shape=(self.words, self.width), name="table")

    def call(self, tokens):
        embedded = tf.nn.embedding_lookup(self.table, tokens)
        return tf.reduce_mean(embedded, axis=1)

    def compute_output_shape(self, shape):
        return (shape[0], self.width)


keras.utils.set_random_seed(0)
random = np.random.default_rng(0)
lengths = random.integers(3, 40, 212)
reviews = tf.ragged.constant([random.integers(0, 1000, length).tolist() for length in lengths], dtype=tf.int32)
stars = tf.constant(lengths % 5, tf.int32)
data = tf.data.Dataset.from_tensor_slices((reviews, stars)).batch(32)
train, held_out = data.take(5), data.skip(5)

model = keras.Sequential(
    [
        keras.Input((None,), dtype="int32", ragged=True),
        BagOfWords(1000, 32),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(5),
    ]
)
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
model.fit(train, validation_data=held_out, epochs=3, verbose=2)
print(model.evaluate(held_out, verbose=0))
print(model.predict(held_out, verbose=0).shape)
