"""Tunix's PeftTrainer on a tiny flax.nnx model of random weights and made-up data; the last batch is longer."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
from counts import jax_compiles, show
from flax import nnx
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig, TrainingInput

losses: list[float] = []


class Tiny(nnx.Module):
    """Guesses the next token by the last one, and by where it stands."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.tokens = nnx.Embed(64, 32, rngs=rngs)
        self.places = nnx.Embed(32, 32, rngs=rngs)
        self.inner = nnx.Linear(32, 64, rngs=rngs)
        self.outer = nnx.Linear(64, 64, rngs=rngs)

    def __call__(self, tokens: Any, positions: Any, cache: Any, mask: Any) -> Any:
        x = self.tokens(tokens) + self.places(positions)
        return self.outer(nnx.gelu(self.inner(x))), cache


class Losses:
    """The trainer's hooks, of which one takes down each step's loss."""

    def on_train_step_end(self, trainer: Any, step: int, loss: Any) -> None:
        losses.append(float(loss))

    def __getattr__(self, name: str) -> Any:
        return lambda *args: None


def inputs(batch: TrainingInput) -> dict[str, Any]:
    """What the model takes, of a batch."""
    rows, length = batch.input_tokens.shape
    return {
        "input_tokens": batch.input_tokens,
        "input_mask": batch.input_mask,
        "positions": jnp.broadcast_to(jnp.arange(length), (rows, length)),
        "attention_mask": None,
    }


compiles = jax_compiles()
trainer = PeftTrainer(Tiny(nnx.Rngs(0)), optax.adamw(1e-2), TrainingConfig(eval_every_n_steps=100, max_steps=6))
trainer = trainer.with_gen_model_input_fn(inputs)
trainer.with_training_hooks(Losses())
tokens = np.random.default_rng(0)
trainer.train(
    [
        TrainingInput(input_tokens=tokens.integers(1, 64, (4, length)), input_mask=np.ones((4, length), bool))
        for length in (16, 16, 16, 16, 16, 24)
    ]
)
show(losses, trainer.train_steps, compiles.of("train_step"), "google-tunix", "flax", "jax")
