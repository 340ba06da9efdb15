"""The operations of the models in TensorFlow, native and for XLA alike."""

from __future__ import annotations

import tensorflow as tf

relu, silu, cosine, sine, take = tf.nn.relu, tf.nn.silu, tf.cos, tf.sin, tf.gather


def linear(x: tf.Tensor, weight: tf.Tensor, bias: tf.Tensor | None) -> tf.Tensor:
    product = tf.tensordot(x, weight, 1)
    return product if bias is None else tf.nn.bias_add(product, bias)


def transposed(x: tf.Tensor) -> tf.Tensor:
    return tf.transpose(x)


def split(x: tf.Tensor, parts: int) -> list[tf.Tensor]:
    return tf.split(x, parts, axis=-1)


def concatenated(parts: list[tf.Tensor], axis: int) -> tf.Tensor:
    return tf.concat(parts, axis)


def repeated(x: tf.Tensor, times: int) -> tf.Tensor:
    return tf.repeat(x, times, axis=0)


def arange(length: int, _like: tf.Tensor) -> tf.Tensor:
    return tf.range(float(length))


def constant(values: list[float], _like: tf.Tensor) -> tf.Tensor:
    return tf.constant(values)


def cast(value: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    return tf.cast(value, like.dtype)


def gelu(x: tf.Tensor, exact: bool) -> tf.Tensor:
    return tf.nn.gelu(x, approximate=not exact)


def layer_norm(x: tf.Tensor, scale: tf.Tensor, shift: tf.Tensor, epsilon: float) -> tf.Tensor:
    mean, variance = tf.nn.moments(x, -1, keepdims=True)
    return tf.nn.batch_normalization(x, mean, variance, shift, scale, epsilon)


def rms_norm(x: tf.Tensor, scale: tf.Tensor) -> tf.Tensor:
    return x * tf.math.rsqrt(tf.reduce_mean(tf.square(x), -1, keepdims=True) + 1e-5) * scale


def heads(x: tf.Tensor, number: int) -> tf.Tensor:
    """(batch, length, heads, width of one)"""
    return tf.reshape(x, (*x.shape[:2], number, x.shape[2] // number))


def joined(x: tf.Tensor) -> tf.Tensor:
    return tf.reshape(x, (*x.shape[:2], x.shape[2] * x.shape[3]))


def attention(
    q: tf.Tensor, k: tf.Tensor, v: tf.Tensor, causal: bool, mask: tf.Tensor | None = None, scale: float | None = None
) -> tf.Tensor:
    several = q.shape[2] // k.shape[2]
    if several > 1:
        k, v = tf.repeat(k, several, axis=2), tf.repeat(v, several, axis=2)
    scores = tf.einsum("bqhd,bkhd->bhqk", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        mask = tf.linalg.band_part(tf.ones(scores.shape[2:], tf.bool), -1, 0)
    if mask is not None:
        scores = tf.where(mask, scores, -1e9)
    return tf.einsum("bhqk,bkhd->bqhd", tf.nn.softmax(scores), v)


def conv(x: tf.Tensor, kernel: tf.Tensor, stride: int, padding: int | None = None) -> tf.Tensor:
    pad = kernel.shape[0] // 2 if padding is None else padding
    return tf.nn.conv2d(tf.pad(x, [[0, 0], [pad, pad], [pad, pad], [0, 0]]), kernel, stride, "VALID")


def batch_norm(x: tf.Tensor, scale: tf.Tensor, shift: tf.Tensor) -> tf.Tensor:
    mean, variance = tf.nn.moments(x, (0, 1, 2))
    return tf.nn.batch_normalization(x, mean, variance, shift, scale, 1e-5)


def max_pool(x: tf.Tensor) -> tf.Tensor:
    padded = tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]], constant_values=x.dtype.min)
    return tf.nn.max_pool2d(padded, 3, 2, "VALID")


def mean_of_pixels(x: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(x, (1, 2))


def pixels(x: tf.Tensor) -> tf.Tensor:
    return tf.reshape(x, (x.shape[0], x.shape[1] * x.shape[2], x.shape[3]))


def mean_square(x: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(tf.square(x))


def cross_entropy(logits: tf.Tensor, labels: tf.Tensor, counts: tf.Tensor | None = None) -> tf.Tensor:
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    if counts is None:
        return tf.reduce_mean(losses)
    return tf.reduce_sum(losses * counts) / tf.reduce_sum(counts)
