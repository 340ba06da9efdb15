"""Training in JAX: parameters, optimizer state, and a jitted step that takes and returns them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import optax
from benchmarks.stack_wars import ops_jax
from benchmarks.stack_wars.models import DECAY, MODELS, RATE, initial
from benchmarks.stack_wars.sizes import SIZES_OF

Arrays = dict[str, jax.Array]
optimizer = optax.adamw(RATE, weight_decay=DECAY)


def start(_stack: str) -> None:
    """Begin with the device, so that what it needs is not taken for the model's."""
    jax.devices()


@partial(jax.jit, donate_argnums=(0, 1), static_argnames=("model", "size"))
def train_step(params: Arrays, state: Any, batch: Arrays, *, model: str, size: str) -> tuple[Arrays, Any, jax.Array]:
    def loss_of(params: Arrays) -> jax.Array:
        loss: jax.Array = MODELS[model].loss(ops_jax, params, batch, SIZES_OF[model][size])
        return loss

    loss, gradients = jax.value_and_grad(loss_of)(params)
    updates, state = optimizer.update(gradients, state, params)
    return optax.apply_updates(params, updates), state, loss


def prepare(_stack: str, model: str, size: str) -> Callable[[], Any]:
    """A function that trains once on the batch, and returns what is to be waited for, the loss last."""
    params = {weight.name: jax.numpy.array(values) for weight, values in initial(model, size)}
    state = jax.jit(optimizer.init)(params)
    batch = jax.tree.map(jax.numpy.asarray, MODELS[model].batch(SIZES_OF[model][size]))

    def step() -> Any:
        nonlocal params, state
        params, state, loss = train_step(params, state, batch, model=model, size=size)
        return params, state, loss

    return step


def abstract(_stack: str, model: str, size: str) -> tuple[Callable[..., Any], tuple[Mapping[str, Any], ...]]:
    """The step, and arguments of which only the types are there."""
    params = {
        weight.name: jax.ShapeDtypeStruct(weight.shape, "float32")
        for weight in MODELS[model].weights(SIZES_OF[model][size])
    }
    state = jax.eval_shape(optimizer.init, params)
    batch = jax.eval_shape(lambda: jax.tree.map(jax.numpy.asarray, MODELS[model].batch(SIZES_OF[model][size])))
    return partial(train_step, model=model, size=size), (params, state, batch)
