"""A training step of the program's own: no function is around it, and it reads its loss."""
# expect: nothing
# finding: uncompiled

import keras
import numpy as np
import tensorflow as tf

model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
optimizer = keras.optimizers.Adam()
seen = []


def train_step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(x))
    optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    seen.append(loss.numpy())


for _ in range(4):
    train_step(np.ones((8, 4), "float32"))
