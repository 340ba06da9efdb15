"""The nine models, each written once: its weights, its batch, and its loss in the operations of any framework.

They are the published architectures without dropout, so that losses can be compared from stack to stack: GEMM; the
feed-forward and the attention block of Vaswani et al. 2017; ResNet-50 (He et al. 2015, strides as torchvision's; batch
statistics, no running averages; each block begins as its shortcut, as Goyal et al. 2017 train it); BERT (Devlin et al.
2018, masked tokens only); GPT-2 (Radford et al. 2019); ViT (Dosovitskiy et al. 2020); GPT-Neo (Black et al. 2021: every
second layer attends locally, scores unscaled); LLaMA 3.1 (Grattafiori et al. 2024: RMSNorm, rotary positions, grouped
keys and values, SwiGLU).

`ops` is one of ops_jax, ops_torch, ops_tensorflow: the framework's own functions under one name each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from benchmarks.stack_wars.sizes import SIZES_OF, Blocks, Gemm, Resnet, Transformer
from numpy.typing import NDArray

Array = Any
"""A framework's array or tensor."""
Weights = Mapping[str, Array]
Batch = Mapping[str, Array]
RATE, DECAY = 1e-4, 0.01
"""AdamW's learning rate, which is BERT's, and weight decay. At ten times that rate ResNet makes much of a last bit."""
IMAGE = "image"
"""The key, in a batch, of images: (batch, height, width, channels)."""


@dataclass(frozen=True, slots=True)
class Weight:
    """One parameter: its initial values are normal with that deviation, around that mean."""

    name: str
    shape: tuple[int, ...]
    deviation: float = 0.02
    mean: float = 0.0

    @property
    def is_kernel(self) -> bool:
        """Whether it is a convolution's, as (height, width, channels in, channels out)."""
        return len(self.shape) == 4


@dataclass(frozen=True, slots=True)
class Model:
    """One of the nine."""

    weights: Callable[[Any], Iterator[Weight]]
    batch: Callable[[Any], dict[str, NDArray[Any]]]
    loss: Callable[[Any, Weights, Batch, Any], Array]


def initial(model: str, size: str) -> Iterator[tuple[Weight, NDArray[np.float32]]]:
    """Every weight with its initial values, the same in every stack."""
    random = np.random.default_rng(0)
    for weight in MODELS[model].weights(SIZES_OF[model][size]):
        values = random.standard_normal(weight.shape, np.float32)
        values *= np.float32(weight.deviation)
        values += np.float32(weight.mean)
        yield weight, values


# --- what the models are made of ----------------------------------------------------------------------------------


def _linear(name: str, rows: int, columns: int, bias: bool = True) -> Iterator[Weight]:
    yield Weight(f"{name}_weight", (rows, columns))
    if bias:
        yield Weight(f"{name}_bias", (columns,), 0.0)


def _norm(name: str, width: int, scale: float = 1.0) -> Iterator[Weight]:
    yield Weight(f"{name}_scale", (width,), 0.0, scale)
    yield Weight(f"{name}_shift", (width,), 0.0)


def linear(ops: Any, p: Weights, name: str, x: Array) -> Array:
    return ops.linear(x, p[f"{name}_weight"], p.get(f"{name}_bias"))


def layer_norm(ops: Any, p: Weights, name: str, x: Array, epsilon: float = 1e-5) -> Array:
    return ops.layer_norm(x, p[f"{name}_scale"], p[f"{name}_shift"], epsilon)


def _block(name: str, size: Transformer | Blocks) -> Iterator[Weight]:
    """Attention and feed-forward with a norm each."""
    yield from _norm(f"{name}_norm_1", size.width)
    yield from _linear(f"{name}_qkv", size.width, 3 * size.width)
    yield from _linear(f"{name}_out", size.width, size.width)
    yield from _norm(f"{name}_norm_2", size.width)
    yield from _linear(f"{name}_up", size.width, size.hidden)
    yield from _linear(f"{name}_down", size.hidden, size.width)


def attention(ops: Any, p: Weights, name: str, x: Array, heads: int, causal: bool) -> Array:
    q, k, v = ops.split(linear(ops, p, f"{name}_qkv", x), 3)
    mixed = ops.attention(ops.heads(q, heads), ops.heads(k, heads), ops.heads(v, heads), causal=causal)
    return linear(ops, p, f"{name}_out", ops.joined(mixed))


def feed_forward(ops: Any, p: Weights, name: str, x: Array, exact: bool) -> Array:
    return linear(ops, p, f"{name}_down", ops.gelu(linear(ops, p, f"{name}_up", x), exact))


def pre_norm_block(ops: Any, p: Weights, name: str, x: Array, heads: int, causal: bool, epsilon: float = 1e-5) -> Array:
    x = x + attention(ops, p, name, layer_norm(ops, p, f"{name}_norm_1", x, epsilon), heads, causal)
    return x + feed_forward(ops, p, name, layer_norm(ops, p, f"{name}_norm_2", x, epsilon), exact=not causal)


# --- GEMM, FFN, MHA -----------------------------------------------------------------------------------------------


def _pair(*shape: int) -> dict[str, NDArray[Any]]:
    random = np.random.default_rng(1)
    return {name: random.standard_normal(shape, np.float32) for name in ("x", "y")}


def gemm_weights(size: Gemm) -> Iterator[Weight]:
    yield Weight("weight", (size.width, size.width))


def gemm_loss(ops: Any, p: Weights, batch: Batch, size: Gemm) -> Array:
    return ops.mean_square(ops.linear(batch["x"], p["weight"], None) - batch["y"])


def ffn_weights(size: Blocks) -> Iterator[Weight]:
    for n in range(size.layers):
        yield from _linear(f"block{n}_up", size.width, size.hidden)
        yield from _linear(f"block{n}_down", size.hidden, size.width)


def ffn_loss(ops: Any, p: Weights, batch: Batch, size: Blocks) -> Array:
    x = batch["x"]
    for n in range(size.layers):
        x = linear(ops, p, f"block{n}_down", ops.relu(linear(ops, p, f"block{n}_up", x)))
    return ops.mean_square(x - batch["y"])


def mha_weights(size: Blocks) -> Iterator[Weight]:
    for n in range(size.layers):
        yield from _linear(f"block{n}_qkv", size.width, 3 * size.width)
        yield from _linear(f"block{n}_out", size.width, size.width)


def mha_loss(ops: Any, p: Weights, batch: Batch, size: Blocks) -> Array:
    x = batch["x"]
    for n in range(size.layers):
        x = attention(ops, p, f"block{n}", x, size.heads, causal=False)
    return ops.mean_square(x - batch["y"])


# --- ResNet -------------------------------------------------------------------------------------------------------


def _conv(name: str, kernel: int, channels: int, out: int, scale: float = 1.0) -> Iterator[Weight]:
    yield Weight(f"{name}_kernel", (kernel, kernel, channels, out), math.sqrt(2 / (kernel * kernel * channels)))
    yield from _norm(f"{name}_norm", out, scale)


def _bottlenecks(size: Resnet) -> Iterator[tuple[str, int, int, int, bool]]:
    """Of each block: name, channels in, channels inside, stride, and whether its shortcut is a convolution."""
    channels = size.width
    for stage, blocks in enumerate(size.stages):
        inside = size.width << stage
        for n in range(blocks):
            yield f"stage{stage}_block{n}", channels, inside, 2 if n == 0 and stage else 1, n == 0
            channels = 4 * inside


def resnet_weights(size: Resnet) -> Iterator[Weight]:
    yield from _conv("stem", 7, 3, size.width)
    channels = size.width
    for name, channels, inside, _, projects in _bottlenecks(size):
        yield from _conv(f"{name}_reduce", 1, channels, inside)
        yield from _conv(f"{name}_middle", 3, inside, inside)
        yield from _conv(f"{name}_expand", 1, inside, 4 * inside, scale=0.0)
        if projects:
            yield from _conv(f"{name}_shortcut", 1, channels, 4 * inside)
        channels = 4 * inside
    yield from _linear("head", channels, size.classes)


def _images(batch: int, image: int, classes: int) -> dict[str, NDArray[Any]]:
    random = np.random.default_rng(1)
    pixels = random.standard_normal((batch, image, image, 3), np.float32)
    return {IMAGE: pixels, "labels": random.integers(0, classes, batch, np.int32)}


def resnet_loss(ops: Any, p: Weights, batch: Batch, size: Resnet) -> Array:
    def conv(name: str, x: Array, stride: int = 1) -> Array:
        x = ops.conv(x, p[f"{name}_kernel"], stride)
        return ops.batch_norm(x, p[f"{name}_norm_scale"], p[f"{name}_norm_shift"])

    x = ops.max_pool(ops.relu(conv("stem", batch[IMAGE], 2)))
    for name, _, _, stride, projects in _bottlenecks(size):
        shortcut = conv(f"{name}_shortcut", x, stride) if projects else x
        y = ops.relu(conv(f"{name}_reduce", x))
        y = ops.relu(conv(f"{name}_middle", y, stride))
        x = ops.relu(conv(f"{name}_expand", y) + shortcut)
    return ops.cross_entropy(linear(ops, p, "head", ops.mean_of_pixels(x)), batch["labels"])


# --- transformers -------------------------------------------------------------------------------------------------


def _tokens(size: Transformer) -> NDArray[np.int32]:
    return np.random.default_rng(1).integers(0, size.vocabulary, (size.batch, size.length), np.int32)


def _language(size: Transformer) -> dict[str, NDArray[Any]]:
    """Sequences that are to be continued."""
    tokens = _tokens(size)
    return {"tokens": tokens, "labels": np.roll(tokens, -1, axis=1)}


def bert_weights(size: Transformer) -> Iterator[Weight]:
    for name, rows in (("token", size.vocabulary), ("position", size.length), ("segment", 2)):
        yield Weight(name, (rows, size.width))
    yield from _norm("embedded", size.width)
    for n in range(size.layers):
        yield from _block(f"block{n}", size)
    yield from _linear("head", size.width, size.width)
    yield from _norm("head_norm", size.width)
    yield Weight("head_shift", (size.vocabulary,), 0.0)


def _masked(size: Transformer) -> dict[str, NDArray[Any]]:
    """Sequences of which 15 % are to be found."""
    tokens = _tokens(size)
    hidden = np.random.default_rng(2).random(tokens.shape) < 0.15
    hidden[:, 0] = True
    masked = np.where(hidden, 0, tokens).astype(np.int32)
    return {"tokens": masked, "labels": tokens, "counts": hidden.astype(np.float32)}


def bert_loss(ops: Any, p: Weights, batch: Batch, size: Transformer) -> Array:
    tokens = batch["tokens"]
    x = ops.take(p["token"], tokens) + p["position"] + p["segment"][0]
    x = layer_norm(ops, p, "embedded", x, 1e-12)
    for n in range(size.layers):
        name = f"block{n}"
        x = layer_norm(ops, p, f"{name}_norm_1", x + attention(ops, p, name, x, size.heads, causal=False), 1e-12)
        x = layer_norm(ops, p, f"{name}_norm_2", x + feed_forward(ops, p, name, x, exact=True), 1e-12)
    x = layer_norm(ops, p, "head_norm", ops.gelu(linear(ops, p, "head", x), True), 1e-12)
    logits = ops.linear(x, ops.transposed(p["token"]), p["head_shift"])
    return ops.cross_entropy(logits, batch["labels"], batch["counts"])


def gpt2_weights(size: Transformer) -> Iterator[Weight]:
    yield Weight("token", (size.vocabulary, size.width))
    yield Weight("position", (size.length, size.width), 0.01)
    for n in range(size.layers):
        yield from _block(f"block{n}", size)
    yield from _norm("last", size.width)


def gpt2_loss(ops: Any, p: Weights, batch: Batch, size: Transformer) -> Array:
    x = ops.take(p["token"], batch["tokens"]) + p["position"]
    for n in range(size.layers):
        x = pre_norm_block(ops, p, f"block{n}", x, size.heads, causal=True)
    logits = ops.linear(layer_norm(ops, p, "last", x), ops.transposed(p["token"]), None)
    return ops.cross_entropy(logits, batch["labels"])


def vit_weights(size: Transformer) -> Iterator[Weight]:
    yield Weight("patch_kernel", (size.patch, size.patch, 3, size.width))
    yield Weight("patch_bias", (size.width,), 0.0)
    yield Weight("class_token", (1, 1, size.width))
    yield Weight("position", ((size.length // size.patch) ** 2 + 1, size.width))
    for n in range(size.layers):
        yield from _block(f"block{n}", size)
    yield from _norm("last", size.width)
    yield from _linear("head", size.width, size.vocabulary)


def vit_loss(ops: Any, p: Weights, batch: Batch, size: Transformer) -> Array:
    patches = ops.pixels(ops.conv(batch[IMAGE], p["patch_kernel"], size.patch, 0)) + p["patch_bias"]
    x = ops.concatenated([ops.repeated(p["class_token"], size.batch), patches], 1) + p["position"]
    for n in range(size.layers):
        x = pre_norm_block(ops, p, f"block{n}", x, size.heads, causal=False, epsilon=1e-6)
    x = layer_norm(ops, p, "last", x, 1e-6)[:, 0]
    return ops.cross_entropy(linear(ops, p, "head", x), batch["labels"])


def gpt_neo_weights(size: Transformer) -> Iterator[Weight]:
    yield Weight("token", (size.vocabulary, size.width))
    yield Weight("position", (size.length, size.width))
    for n in range(size.layers):
        name = f"block{n}"
        yield from _norm(f"{name}_norm_1", size.width)
        for part in ("q", "k", "v"):
            yield from _linear(f"{name}_{part}", size.width, size.width, bias=False)
        yield from _linear(f"{name}_out", size.width, size.width)
        yield from _norm(f"{name}_norm_2", size.width)
        yield from _linear(f"{name}_up", size.width, size.hidden)
        yield from _linear(f"{name}_down", size.hidden, size.width)
    yield from _norm("last", size.width)


def gpt_neo_loss(ops: Any, p: Weights, batch: Batch, size: Transformer) -> Array:
    x = ops.take(p["token"], batch["tokens"]) + p["position"]
    at = ops.arange(size.length, x)
    back = at[:, None] - at[None, :]
    near = (back >= 0) & (back < size.window)
    for n in range(size.layers):
        name = f"block{n}"
        y = layer_norm(ops, p, f"{name}_norm_1", x)
        q, k, v = (ops.heads(linear(ops, p, f"{name}_{part}", y), size.heads) for part in ("q", "k", "v"))
        local = n % 2 == 1
        mixed = ops.attention(q, k, v, causal=not local, mask=near if local else None, scale=1.0)
        x = x + linear(ops, p, f"{name}_out", ops.joined(mixed))
        x = x + feed_forward(ops, p, name, layer_norm(ops, p, f"{name}_norm_2", x), exact=False)
    logits = ops.linear(layer_norm(ops, p, "last", x), ops.transposed(p["token"]), None)
    return ops.cross_entropy(logits, batch["labels"])


def llama_weights(size: Transformer) -> Iterator[Weight]:
    narrow = size.width // size.heads * size.kv_heads
    yield Weight("token", (size.vocabulary, size.width))
    for n in range(size.layers):
        name = f"block{n}"
        yield Weight(f"{name}_norm_1", (size.width,), 0.0, 1.0)
        for part, columns in (("q", size.width), ("k", narrow), ("v", narrow), ("out", size.width)):
            yield from _linear(f"{name}_{part}", size.width, columns, bias=False)
        yield Weight(f"{name}_norm_2", (size.width,), 0.0, 1.0)
        yield from _linear(f"{name}_gate", size.width, size.hidden, bias=False)
        yield from _linear(f"{name}_up", size.width, size.hidden, bias=False)
        yield from _linear(f"{name}_down", size.hidden, size.width, bias=False)
    yield Weight("last", (size.width,), 0.0, 1.0)
    yield Weight("head", (size.width, size.vocabulary))


def frequencies(dimensions: int) -> list[float]:
    """Of rotary positions, as LLaMA 3.1 stretches them for contexts beyond 8,192."""
    theta, factor, low, high, original = 500_000.0, 8.0, 1.0, 4.0, 8192
    found = []
    for n in range(0, dimensions, 2):
        frequency = theta ** (-n / dimensions)
        turns = original * frequency / (2 * math.pi)
        kept = min(1.0, max(0.0, (turns - low) / (high - low)))
        found.append(frequency * (kept + (1 - kept) / factor))
    return found


def llama_loss(ops: Any, p: Weights, batch: Batch, size: Transformer) -> Array:
    x = ops.take(p["token"], batch["tokens"])
    half = size.width // size.heads // 2
    angles = ops.arange(size.length, x)[:, None, None] * ops.constant(frequencies(2 * half), x)
    cosine, sine = ops.cast(ops.cosine(angles), x), ops.cast(ops.sine(angles), x)

    def turned(x: Array) -> Array:
        first, second = x[..., :half], x[..., half:]
        return ops.concatenated([first * cosine - second * sine, second * cosine + first * sine], -1)

    for n in range(size.layers):
        name = f"block{n}"
        y = ops.rms_norm(x, p[f"{name}_norm_1"])
        q, k, v = (
            ops.heads(linear(ops, p, f"{name}_{part}", y), heads)
            for part, heads in (("q", size.heads), ("k", size.kv_heads), ("v", size.kv_heads))
        )
        mixed = ops.attention(turned(q), turned(k), v, causal=True)
        x = x + linear(ops, p, f"{name}_out", ops.joined(mixed))
        y = ops.rms_norm(x, p[f"{name}_norm_2"])
        gated = ops.silu(linear(ops, p, f"{name}_gate", y)) * linear(ops, p, f"{name}_up", y)
        x = x + linear(ops, p, f"{name}_down", gated)
    return ops.cross_entropy(ops.linear(ops.rms_norm(x, p["last"]), p["head"], None), batch["labels"])


MODELS = {
    "gemm": Model(gemm_weights, lambda size: _pair(size.batch, size.width), gemm_loss),
    "ffn": Model(ffn_weights, lambda size: _pair(size.batch, size.length, size.width), ffn_loss),
    "mha": Model(mha_weights, lambda size: _pair(size.batch, size.length, size.width), mha_loss),
    "resnet50": Model(resnet_weights, lambda size: _images(size.batch, size.image, size.classes), resnet_loss),
    "bert": Model(bert_weights, _masked, bert_loss),
    "gpt2": Model(gpt2_weights, _language, gpt2_loss),
    "vit": Model(vit_weights, lambda size: _images(size.batch, size.length, size.vocabulary), vit_loss),
    "gpt_neo": Model(gpt_neo_weights, _language, gpt_neo_loss),
    "llama": Model(llama_weights, _language, llama_loss),
}
