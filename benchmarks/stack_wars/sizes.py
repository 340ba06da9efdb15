"""How large the nine models are: as published, six blocks of them, and two blocks of each kind at toy widths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Gemm:
    """One matrix product: `batch` rows of `width` with a square matrix."""

    width: int
    batch: int


@dataclass(frozen=True, slots=True)
class Blocks:
    """`layers` feed-forward or attention blocks of `width`, `hidden` between, on `batch` sequences of `length`."""

    width: int
    hidden: int
    heads: int
    layers: int
    length: int
    batch: int


@dataclass(frozen=True, slots=True)
class Resnet:
    """Bottleneck blocks by stage, the first stage's `width` inside of them, on `batch` square images."""

    stages: tuple[int, ...]
    width: int
    image: int
    classes: int
    batch: int


@dataclass(frozen=True, slots=True)
class Transformer:
    """A language model, or with `patch` a vision transformer whose `vocabulary` are its classes."""

    vocabulary: int
    length: int
    width: int
    hidden: int
    heads: int
    layers: int
    batch: int
    kv_heads: int = 0
    """Of keys and values, where they are fewer than `heads`."""
    window: int = 0
    """Of local attention."""
    patch: int = 0
    """Of an image of `length` by `length`."""


SIZES = ("tiny", "small", "published")
_TINY = {"vocabulary": 256, "length": 32, "width": 64, "hidden": 128, "heads": 4, "layers": 2, "batch": 2}
_SMALL = {"vocabulary": 8192, "length": 128, "width": 512, "hidden": 2048, "heads": 8, "layers": 6, "batch": 2}


def _transformer(published: Transformer, tiny: dict[str, int], small: dict[str, int]) -> dict[str, Transformer]:
    return {
        "tiny": replace(published, **(_TINY | tiny)),
        "small": replace(published, **(_SMALL | small)),
        "published": published,
    }


Size = Gemm | Blocks | Resnet | Transformer
SIZES_OF: dict[str, Mapping[str, Size]] = {
    "gemm": {"tiny": Gemm(64, 16), "small": Gemm(1024, 1024), "published": Gemm(4096, 4096)},
    "ffn": {
        "tiny": Blocks(64, 128, 1, 2, 8, 2),
        "small": Blocks(512, 2048, 1, 6, 64, 4),
        "published": Blocks(512, 2048, 1, 6, 512, 8),
    },
    "mha": {
        "tiny": Blocks(64, 64, 4, 2, 8, 2),
        "small": Blocks(512, 512, 8, 6, 64, 4),
        "published": Blocks(512, 512, 8, 6, 512, 8),
    },
    "resnet50": {
        "tiny": Resnet((2, 2), 8, 32, 10, 2),
        "small": Resnet((2, 2, 2), 32, 64, 1000, 4),
        "published": Resnet((3, 4, 6, 3), 64, 224, 1000, 8),
    },
    "bert": _transformer(Transformer(30_522, 512, 768, 3072, 12, 12, 2), {}, {}),
    "gpt2": _transformer(Transformer(50_257, 1024, 768, 3072, 12, 12, 1), {}, {}),
    "vit": _transformer(
        Transformer(1000, 224, 768, 3072, 12, 12, 8, patch=16),
        {"vocabulary": 10, "patch": 8},
        {"vocabulary": 1000},
    ),
    "gpt_neo": _transformer(
        Transformer(50_257, 2048, 2048, 8192, 16, 24, 1, window=256), {"window": 8}, {"window": 32}
    ),
    "llama": _transformer(
        Transformer(128_256, 2048, 4096, 14_336, 32, 32, 1, kv_heads=8),
        {"kv_heads": 2},
        {"kv_heads": 2, "hidden": 1792},
    ),
}
"""Each model's sizes. Where a paper leaves length and batch open, the published size has long sequences and few of
them: it is for machines without accelerators."""
