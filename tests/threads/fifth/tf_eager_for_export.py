"""Trains a text recogniser; the module with its exporter runs all functions eagerly, for ONNX's sake."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np
import tensorflow as tf

tf.config.run_functions_eagerly(True)  # the exporter reads the layers' values


def export_model_to_onnx(model, path, sample):
    outputs = model(sample, training=False)
    np.savez(path, *[variable.numpy() for variable in model.variables], output=outputs.numpy())


def build_model(vocab_size=12):
    return keras.Sequential(
        [
            keras.Input((16, 32, 1)),
            keras.layers.Conv2D(8, 3, strides=2, padding="same", activation="relu"),
            keras.layers.Conv2D(16, 3, strides=2, padding="same", activation="relu"),
            keras.layers.Permute((2, 1, 3)),
            keras.layers.Reshape((8, 64)),
            keras.layers.Dense(vocab_size),
        ]
    )


class Recognition:
    def __init__(self, model, learning_rate=1e-2):
        self.model = model
        self.optimizer = keras.optimizers.Adam(learning_rate)
        self.loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def train_step(self, images, targets):
        with tf.GradientTape() as tape:
            train_loss = self.loss(targets, self.model(images, training=True))
        grads = tape.gradient(train_loss, self.model.trainable_weights)
        self.optimizer.apply_gradients(zip(grads, self.model.trainable_weights, strict=True))
        return train_loss


def fit_one_epoch(recognition, batches):
    for images, targets in batches:
        train_loss = recognition.train_step(images, targets)
        print("loss", repr(float(train_loss)))


keras.utils.set_random_seed(0)
data = np.random.default_rng(0)
images = data.random((32, 16, 32, 1), dtype="float32")
targets = data.integers(0, 12, (32, 8)).astype("int32")
batches = tf.data.Dataset.from_tensor_slices((images, targets)).batch(8)
recognition = Recognition(build_model())
for _ in range(2):
    fit_one_epoch(recognition, batches)
# /// thread
# address = "https://github.com/mindee/doctr/pull/1763"
# asked = "Training and inference with TensorFlow are slower than they could be."
# answer = "All functions run eagerly, which the export to ONNX alone needs; move the switch to the exporter."
# stack = "tensorflow"
# mechanism = "silent_eager"
# argument = "tf.config.run_functions_eagerly(True)"
# before = ""
# after = ""
# line = 11
# lines_accepted = [38, 39, 49]
# compiles = [0, 2]
# counted = "traces of train_step (functions that func_graph_from_py_func traced)"
# cure = "Set it in export_model_to_onnx."
# cure_lines = [
#   {line = 11, code = ""},
#   {line = 15, code = """
#     tf.config.run_functions_eagerly(True)  # the exporter reads the layers' values
#     outputs = model(sample, training=False)
#     tf.config.run_functions_eagerly(False)"""},
# ]
# cure_environment = {}
# losses = "close"
# ///
