"""Trains a variational autoencoder on a table's columns, and reads each column's loss in every step."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np
import tensorflow as tf
from keras import layers


class VAEWrapper:
    def __init__(self, columns, latent_dim=4, batch_size=16):
        self.columns = columns
        self.batch_size = batch_size
        self.latent_dim = latent_dim
        width = len(columns)
        self.encoder = keras.Sequential(
            [keras.Input((width,)), layers.Dense(32, activation="relu"), layers.Dense(2 * latent_dim)]
        )
        self.decoder = keras.Sequential(
            [keras.Input((latent_dim,)), layers.Dense(32, activation="relu"), layers.Dense(width)]
        )
        self.weights = self.encoder.trainable_variables + self.decoder.trainable_variables
        self.optimizer = keras.optimizers.Adam(1e-2)
        self.feature_losses = dict.fromkeys(columns, 0.0)

    def _train_step(self, batch):
        with tf.GradientTape() as tape:
            mean, log_var = tf.split(self.encoder(batch), 2, axis=-1)
            noise = tf.random.stateless_normal(tf.shape(mean), seed=(1, 2))
            reconstructed = self.decoder(mean + tf.exp(0.5 * log_var) * noise)
            per_column = tf.reduce_mean(tf.square(batch - reconstructed), axis=0)
            kl_loss = -0.5 * tf.reduce_mean(1.0 + log_var - tf.square(mean) - tf.exp(log_var))
            loss = tf.reduce_sum(per_column) + 0.1 * kl_loss
            for name, value in zip(self.columns, tf.unstack(per_column, len(self.columns)), strict=True):
                self.feature_losses[name] += value.numpy()
            self.kl_total += kl_loss.numpy()
        self.optimizer.apply_gradients(zip(tape.gradient(loss, self.weights), self.weights, strict=True))
        return loss

    def train(self, dataset, epochs):
        for _ in range(epochs):
            self.kl_total, total = 0.0, 0.0
            for batch in dataset:
                total += float(self._train_step(batch))
            print("loss", repr(total))


keras.utils.set_random_seed(0)
table = np.random.default_rng(0).normal(size=(64, 6)).astype("float32")
dataset = tf.data.Dataset.from_tensor_slices(table).batch(16)
VAEWrapper(["age", "income", "tenure", "visits", "spend", "score"]).train(dataset, epochs=4)
# /// thread
# address = "https://github.com/tdspora/syngen/pull/566"
# asked = "The training of the VAE is slow."
# answer = """\
# The step calls .numpy() on its losses, so it could never be a graph and ran eagerly; put what computes into a \
# tf.function that returns tensors, and read them afterwards. 8 to 15 times as fast."""
# stack = "tensorflow"
# mechanism = "silent_eager"
# argument = "_train_step"
# before = ""
# after = ""
# line = 47
# lines_accepted = [29, 38, 39, 46]
# compiles = [0, 2]
# counted = "traces of the step (functions that func_graph_from_py_func traced)"
# cure = "Read the values outside a tf.function."
# cure_lines = [
#   {line = 29, code = """
#     @tf.function
#     def _train_step_graph(self, batch):"""},
#   {line = 37, code = """
#         self.optimizer.apply_gradients(zip(tape.gradient(loss, self.weights), self.weights, strict=True))"""},
#   {line = 38, code = "        return loss, kl_loss, per_column"},
#   {line = 39, code = "    def _train_step(self, batch):"},
#   {line = 40, code = """
#         loss, kl_loss, per_column = self._train_step_graph(batch)
#         for name, value in zip(self.columns, per_column.numpy(), strict=True):
#             self.feature_losses[name] += value
#         self.kl_total += kl_loss.numpy()"""},
# ]
# cure_environment = {}
# losses = "close"
# ///
