"""The operations of the models in JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax
from jax import Array

relu, silu, cosine, sine, take = jax.nn.relu, jax.nn.silu, jnp.cos, jnp.sin, lambda table, ids: jnp.take(table, ids, 0)


def linear(x: Array, weight: Array, bias: Array | None) -> Array:
    return x @ weight if bias is None else x @ weight + bias


def transposed(x: Array) -> Array:
    return x.T


def split(x: Array, parts: int) -> list[Array]:
    return jnp.split(x, parts, axis=-1)


def concatenated(parts: list[Array], axis: int) -> Array:
    return jnp.concatenate(parts, axis)


def repeated(x: Array, times: int) -> Array:
    return jnp.broadcast_to(x, (times, *x.shape[1:]))


def arange(length: int, _like: Array) -> Array:
    return jnp.arange(length)


def constant(values: list[float], _like: Array) -> Array:
    return jnp.array(values)


def cast(value: Array, like: Array) -> Array:
    return value.astype(like.dtype)


def gelu(x: Array, exact: bool) -> Array:
    return jax.nn.gelu(x, approximate=not exact)


def layer_norm(x: Array, scale: Array, shift: Array, epsilon: float) -> Array:
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + epsilon) * scale + shift


def rms_norm(x: Array, scale: Array) -> Array:
    return x * jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-5) * scale


def heads(x: Array, number: int) -> Array:
    """(batch, length, heads, width of one)"""
    return x.reshape(*x.shape[:2], number, -1)


def joined(x: Array) -> Array:
    return x.reshape(*x.shape[:2], -1)


def attention(
    q: Array, k: Array, v: Array, causal: bool, mask: Array | None = None, scale: float | None = None
) -> Array:
    return jax.nn.dot_product_attention(q, k, v, mask=mask, is_causal=causal, scale=scale)


def conv(x: Array, kernel: Array, stride: int, padding: int | None = None) -> Array:
    pad = kernel.shape[0] // 2 if padding is None else padding
    return jax.lax.conv_general_dilated(
        x, kernel, (stride, stride), [(pad, pad)] * 2, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def batch_norm(x: Array, scale: Array, shift: Array) -> Array:
    mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * scale + shift


def max_pool(x: Array) -> Array:
    pads = [(0, 0), (1, 1), (1, 1), (0, 0)]
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), pads)


def mean_of_pixels(x: Array) -> Array:
    return x.mean((1, 2))


def pixels(x: Array) -> Array:
    return x.reshape(x.shape[0], -1, x.shape[-1])


def mean_square(x: Array) -> Array:
    return jnp.square(x).mean()


def cross_entropy(logits: Array, labels: Array, counts: Array | None = None) -> Array:
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
    return losses.mean() if counts is None else (losses * counts).sum() / counts.sum()
