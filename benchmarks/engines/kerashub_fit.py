"""KerasHub's GPT-2, tiny, of random weights and made-up data, trained by fit() on JAX; the last batch is smaller."""

from __future__ import annotations

import json
import logging
import os

os.environ["KERAS_BACKEND"] = "jax"

import jax
import keras
import keras_hub
import numpy as np

compiled: list[str] = []


class Compiling(logging.Handler):
    """Takes down what jax_log_compiles says of each compile."""

    def emit(self, record: logging.LogRecord) -> None:
        if (text := record.getMessage()).startswith("Finished XLA compilation of"):
            compiled.append(text.split()[4])


class Losses(keras.callbacks.Callback):
    """Takes down each step's loss."""

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        losses.append(float((logs or {})["loss"]))


losses: list[float] = []
jax.config.update("jax_log_compiles", True)
logging.getLogger("jax").addHandler(Compiling())
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
said = {"losses": losses, "steps": len(losses), "compiles": sum("train_step" in name for name in compiled)}
print("ENGINE " + json.dumps(said))
