"""The operations of the models in PyTorch, for torch.compile, eager, torch_xla and openxla alike."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

relu, silu, cosine, sine = F.relu, F.silu, torch.cos, torch.sin


def take(table: Tensor, ids: Tensor) -> Tensor:
    return F.embedding(ids, table)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return F.linear(x, weight.T, bias)


def transposed(x: Tensor) -> Tensor:
    return x.T


def split(x: Tensor, parts: int) -> tuple[Tensor, ...]:
    return x.chunk(parts, dim=-1)


def concatenated(parts: list[Tensor], axis: int) -> Tensor:
    return torch.cat(parts, axis)


def repeated(x: Tensor, times: int) -> Tensor:
    return x.expand(times, *x.shape[1:])


def arange(length: int, like: Tensor) -> Tensor:
    return torch.arange(length, device=like.device)


def constant(values: list[float], like: Tensor) -> Tensor:
    return torch.tensor(values, device=like.device)


def cast(value: Tensor, like: Tensor) -> Tensor:
    return value.to(like.dtype)


def gelu(x: Tensor, exact: bool) -> Tensor:
    return F.gelu(x, approximate="none" if exact else "tanh")


def layer_norm(x: Tensor, scale: Tensor, shift: Tensor, epsilon: float) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], scale, shift, epsilon)


def rms_norm(x: Tensor, scale: Tensor) -> Tensor:
    return F.rms_norm(x, x.shape[-1:], scale, 1e-5)


def heads(x: Tensor, number: int) -> Tensor:
    """(batch, length, heads, width of one)"""
    return x.view(*x.shape[:2], number, -1)


def joined(x: Tensor) -> Tensor:
    return x.flatten(2)


def attention(
    q: Tensor, k: Tensor, v: Tensor, causal: bool, mask: Tensor | None = None, scale: float | None = None
) -> Tensor:
    several = q.shape[2] // k.shape[2]
    if several > 1:
        k, v = k.repeat_interleave(several, 2), v.repeat_interleave(several, 2)
    q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
    return F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, scale=scale).transpose(1, 2)


def conv(x: Tensor, kernel: Tensor, stride: int, padding: int | None = None) -> Tensor:
    return F.conv2d(x, kernel, stride=stride, padding=kernel.shape[-1] // 2 if padding is None else padding)


def batch_norm(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    return F.batch_norm(x, None, None, scale, shift, training=True, eps=1e-5)


def max_pool(x: Tensor) -> Tensor:
    return F.max_pool2d(x, 3, 2, 1)


def mean_of_pixels(x: Tensor) -> Tensor:
    return x.mean((2, 3))


def pixels(x: Tensor) -> Tensor:
    return x.flatten(2).transpose(1, 2)


def mean_square(x: Tensor) -> Tensor:
    return x.square().mean()


def cross_entropy(logits: Tensor, labels: Tensor, counts: Tensor | None = None) -> Tensor:
    logits, labels = logits.reshape(-1, logits.shape[-1]), labels.reshape(-1)
    if counts is None:
        return F.cross_entropy(logits, labels)
    return (F.cross_entropy(logits, labels, reduction="none") * counts.reshape(-1)).sum() / counts.sum()
