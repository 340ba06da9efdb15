"""The models in JAX, as plain functions of their parameters."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax

from two_models.sizes import FFN, GPT

Params = dict[str, Any]


def linear_init(key: jax.Array, rows: int, columns: int) -> Params:
    return {"weight": 0.02 * jax.random.normal(key, (rows, columns)), "bias": jnp.zeros(columns)}


def linear(layer: Params, x: jax.Array) -> jax.Array:
    return x @ layer["weight"] + layer["bias"]


def ffn_init(key: jax.Array, size: FFN) -> list[Params]:
    return [linear_init(k, size.width, size.width) for k in jax.random.split(key, size.layers)]


def ffn(layers: list[Params], x: jax.Array) -> jax.Array:
    for layer in layers[:-1]:
        x = jax.nn.relu(linear(layer, x))
    return linear(layers[-1], x)


def ffn_loss(layers: list[Params], batch: dict[str, jax.Array]) -> jax.Array:
    return jnp.square(ffn(layers, batch["x"]) - batch["y"]).mean()


def gpt_init(key: jax.Array, size: GPT) -> Params:
    keys = iter(jax.random.split(key, 2 + 4 * size.layers))
    width = size.width

    def norm() -> Params:
        return {"scale": jnp.ones(width), "shift": jnp.zeros(width)}

    return {
        "token": 0.02 * jax.random.normal(next(keys), (size.vocabulary, width)),
        "position": 0.02 * jax.random.normal(next(keys), (size.length, width)),
        "blocks": [
            {
                "norm_1": norm(),
                "qkv": linear_init(next(keys), width, 3 * width),
                "out": linear_init(next(keys), width, width),
                "norm_2": norm(),
                "up": linear_init(next(keys), width, 4 * width),
                "down": linear_init(next(keys), 4 * width, width),
            }
            for _ in range(size.layers)
        ],
        "norm": norm(),
    }


def layer_norm(x: jax.Array, norm: Params) -> jax.Array:
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-5) * norm["scale"] + norm["shift"]


def attention(x: jax.Array, block: Params, heads: int) -> jax.Array:
    batch, length, width = x.shape
    q, k, v = (part.reshape(batch, length, heads, -1) for part in jnp.split(linear(block["qkv"], x), 3, axis=-1))
    mixed = jax.nn.dot_product_attention(q, k, v, is_causal=True)
    return linear(block["out"], mixed.reshape(batch, length, width))


def gpt(params: Params, tokens: jax.Array, heads: int) -> jax.Array:
    positions = jnp.arange(tokens.shape[1])
    x = jnp.take(params["token"], tokens, axis=0) + jnp.take(params["position"], positions, axis=0)
    for block in params["blocks"]:
        x = x + attention(layer_norm(x, block["norm_1"]), block, heads)
        x = x + linear(block["down"], jax.nn.gelu(linear(block["up"], layer_norm(x, block["norm_2"]))))
    return layer_norm(x, params["norm"]) @ params["token"].T


def gpt_loss(params: Params, batch: dict[str, jax.Array], heads: int) -> jax.Array:
    logits = gpt(params, batch["tokens"][:, :-1], heads)
    return optax.softmax_cross_entropy_with_integer_labels(logits, batch["tokens"][:, 1:]).mean()
