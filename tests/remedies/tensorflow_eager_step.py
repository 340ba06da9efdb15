"""A training step of the program's own that no tf.function is around."""

import keras
import numpy as np
import tensorflow as tf


class Trainer:
    def __init__(self):
        self.model = keras.Sequential(
            [keras.Input((4,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)]
        )
        self.optimizer = keras.optimizers.SGD(0.125)

    def step(self, x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self.model(x, training=True) - y))
        weights = self.model.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss


keras.utils.set_random_seed(0)
trainer = Trainer()
x, y = tf.constant(np.ones((8, 4), "float32")), tf.constant(np.ones((8, 1), "float32"))
for _ in range(5):
    print("loss", round(float(trainer.step(x, y)), 3))
