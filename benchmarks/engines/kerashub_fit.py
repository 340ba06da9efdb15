"""KerasHub's GPT-2, tiny, of random weights and made-up data, trained by fit() on JAX; the last batch is smaller."""

from __future__ import annotations

import os

os.environ["KERAS_BACKEND"] = "jax"

import keras
import keras_hub
import numpy as np
from counts import jax_compiles, show


class Losses(keras.callbacks.Callback):
    """Takes down each step's loss."""

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        losses.append(float((logs or {})["loss"]))


losses: list[float] = []
compiles = jax_compiles()
keras.utils.set_random_seed(0)
model = keras_hub.models.GPT2CausalLM(
    backbone=keras_hub.models.GPT2Backbone(
        vocabulary_size=64,
        num_layers=2,
        num_heads=2,
        hidden_dim=32,
        intermediate_dim=64,
        max_sequence_length=16,
        dropout=0.0,
    ),
    preprocessor=None,
)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(optimizer=keras.optimizers.AdamW(1e-3), loss=loss, jit_compile=True)
tokens = np.random.default_rng(0).integers(1, 64, (22, 17))
x = {"token_ids": tokens[:, :-1], "padding_mask": np.ones((22, 16), bool)}
model.fit(x, tokens[:, 1:], batch_size=4, epochs=1, verbose=0, shuffle=False, callbacks=[Losses()])
show(losses, len(losses), compiles.of("train_step"), "keras-hub", "keras", "jax")
