"""A GAN of points on a circle: two networks, trained in turn, and looked at every few epochs."""

import keras
import numpy as np
import tensorflow as tf

LATENT = 16

generator = keras.Sequential(
    [keras.layers.Dense(64, activation="relu"), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(2)]
)
discriminator = keras.Sequential(
    [keras.layers.Dense(64, activation="relu"), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(1)]
)
generator_optimizer = keras.optimizers.Adam(1e-3)
discriminator_optimizer = keras.optimizers.Adam(1e-3)
loss_of = keras.losses.BinaryCrossentropy(from_logits=True)


@tf.function
def train_discriminator(real):
    noise = tf.random.normal([tf.shape(real)[0], LATENT])
    with tf.GradientTape() as tape:
        said_real, said_fake = discriminator(real), discriminator(generator(noise))
        loss = loss_of(tf.ones_like(said_real), said_real) + loss_of(tf.zeros_like(said_fake), said_fake)
    variables = discriminator.trainable_variables
    discriminator_optimizer.apply(tape.gradient(loss, variables), variables)
    return loss


@tf.function
def train_generator(batch_size):
    noise = tf.random.normal([batch_size, LATENT])
    with tf.GradientTape() as tape:
        said = discriminator(generator(noise))
        loss = loss_of(tf.ones_like(said), said)
    variables = generator.trainable_variables
    generator_optimizer.apply(tape.gradient(loss, variables), variables)
    return loss


keras.utils.set_random_seed(0)
angles = np.random.default_rng(0).uniform(0, 2 * np.pi, 500)
points = np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32)
data = tf.data.Dataset.from_tensor_slices(points).shuffle(500, seed=0).batch(64)
for epoch in range(4):
    for real in data:
        d_loss = train_discriminator(real)
        g_loss = train_generator(len(real))
    print(f"epoch {epoch}: {float(d_loss):.3f} {float(g_loss):.3f}")
