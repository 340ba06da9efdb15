"""Training in JAX: parameters, optimizer state, and a jitted step that takes and returns them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import optax
from examples.stack_wars import models_jax as models
from examples.stack_wars.sizes import FFN, GPT

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


def prepare(_stack: str, size: FFN | GPT) -> tuple[Callable[[Batch], Any], Batch]:
    """A function that trains on a batch and returns what is to be waited for; and the batch."""
    key = jax.random.key(0)
    train_step: Callable[..., tuple[Any, Any, jax.Array]]
    if isinstance(size, GPT):
        params = jax.jit(partial(models.gpt_init, size=size))(key)
        batch = {"tokens": jax.random.randint(key, (size.batch, size.length + 1), 0, size.vocabulary)}
        train_step = partial(gpt_step, heads=size.heads)
    else:
        params = jax.jit(partial(models.ffn_init, size=size))(key)
        batch = {name: jax.random.normal(key, (size.batch, size.width)) for name in ("x", "y")}
        train_step = ffn_step
    state = jax.jit(optimizer.init)(params)

    def step(batch: Batch) -> Any:
        nonlocal params, state
        params, state, loss = train_step(params, state, batch)
        return params, state, loss

    return step, batch
