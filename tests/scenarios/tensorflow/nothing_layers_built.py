"""The same layers and optimizer, built before the first call: it is traced once."""
# expect: nothing
# settles: 1

import keras
import tensorflow as tf

import coldstep

model = keras.Sequential([keras.layers.Dense(4, activation="relu"), keras.layers.Dense(1)])
optimizer = keras.optimizers.Adam()
model.build((None, 3))
optimizer.build(model.trainable_variables)


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x) - y) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


for _ in range(4):
    with coldstep.step():
        coldstep.wait(train_step(tf.ones((8, 3)), tf.ones((8, 1))))
