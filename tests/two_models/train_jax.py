"""Training in JAX: parameters, optimizer state, and a jitted step that takes and returns them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import optax

from two_models import models_jax as models

Batch = dict[str, Any]
optimizer = optax.adamw(1e-3)


@partial(jax.jit, donate_argnums=(0, 1))
def ffn_step(params: Any, state: Any, batch: Batch) -> tuple[Any, Any, jax.Array]:
    return update(models.ffn_loss, params, state, batch)


@partial(jax.jit, donate_argnums=(0, 1), static_argnames="heads")
def gpt_step(params: Any, state: Any, batch: Batch, heads: int) -> tuple[Any, Any, jax.Array]:
    return update(partial(models.gpt_loss, heads=heads), params, state, batch)


def update(loss_of: Callable[..., jax.Array], params: Any, state: Any, batch: Batch) -> tuple[Any, Any, jax.Array]:
    loss, gradients = jax.value_and_grad(loss_of)(params, batch)
    updates, state = optimizer.update(gradients, state, params)
    return optax.apply_updates(params, updates), state, loss
