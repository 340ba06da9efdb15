"""A small GPT in JAX, trained for eight steps of which the last has a smaller batch. `python examples/gpt_jax.py`"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import coldstep

VOCABULARY, LENGTH, WIDTH, HEADS, LAYERS = 256, 32, 64, 4, 1
BATCHES = (8, 8, 8, 8, 8, 8, 8, 5)

Params = dict[str, Any]
optimizer = optax.adamw(1e-2)


def init(key: jax.Array) -> Params:
    keys = iter(jax.random.split(key, 2 + 4 * LAYERS))

    def weight(rows: int, columns: int) -> jax.Array:
        return 0.02 * jax.random.normal(next(keys), (rows, columns))

    def norm() -> Params:
        return {"scale": jnp.ones(WIDTH), "shift": jnp.zeros(WIDTH)}

    return {
        "token": weight(VOCABULARY, WIDTH),
        "position": weight(LENGTH, WIDTH),
        "blocks": [
            {
                "norm_1": norm(),
                "qkv": weight(WIDTH, 3 * WIDTH),
                "out": weight(WIDTH, WIDTH),
                "norm_2": norm(),
                "up": weight(WIDTH, 4 * WIDTH),
                "down": weight(4 * WIDTH, WIDTH),
            }
            for _ in range(LAYERS)
        ],
        "norm": norm(),
    }


def layer_norm(x: jax.Array, norm: Params) -> jax.Array:
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-5) * norm["scale"] + norm["shift"]


def attention(x: jax.Array, block: Params) -> jax.Array:
    batch, length, _ = x.shape
    q, k, v = (part.reshape(batch, length, HEADS, -1) for part in jnp.split(x @ block["qkv"], 3, axis=-1))
    return jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(batch, length, WIDTH) @ block["out"]


def gpt(params: Params, tokens: jax.Array) -> jax.Array:
    x = params["token"][tokens] + params["position"]
    for block in params["blocks"]:
        x = x + attention(layer_norm(x, block["norm_1"]), block)
        x = x + jax.nn.gelu(layer_norm(x, block["norm_2"]) @ block["up"]) @ block["down"]
    return layer_norm(x, params["norm"]) @ params["token"].T


def loss_of(params: Params, batch: dict[str, jax.Array]) -> jax.Array:
    logits = gpt(params, batch["tokens"][:, :-1])
    return optax.softmax_cross_entropy_with_integer_labels(logits, batch["tokens"][:, 1:]).mean()


@partial(jax.jit, donate_argnames=("params", "state"))
def train_step(
    params: Params, state: optax.OptState, batch: dict[str, jax.Array]
) -> tuple[Params, optax.OptState, jax.Array]:
    loss, gradients = jax.value_and_grad(loss_of)(params, batch)
    updates, state = optimizer.update(gradients, state, params)
    return optax.apply_updates(params, updates), state, loss


def batches() -> Iterator[dict[str, np.ndarray]]:
    """Sequences that count upwards, together through the whole vocabulary."""
    for size in BATCHES:
        with coldstep.annotate("data loading"):
            tokens = (LENGTH * np.arange(size)[:, None] + np.arange(LENGTH + 1)) % VOCABULARY
        yield {"tokens": tokens.astype(np.int32)}


def train() -> None:
    params = init(jax.random.key(0))
    state = optimizer.init(params)
    for n, batch in enumerate(batches()):
        with coldstep.step("jax"):
            params, state, loss = coldstep.wait(train_step(params, state, batch))
        print(f"jax step {n}: loss {loss:.9g}")


if __name__ == "__main__":
    with coldstep.trace("gpt_jax.pftrace") as run:
        train()
    print(run.report())
