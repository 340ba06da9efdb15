"""How large the models are: two configurations of each, one for two cores and the one that has been published."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FFN:
    """A feed-forward network: `layers` of `width`, on `batch` rows."""

    width: int = 64
    layers: int = 3
    batch: int = 16


@dataclass(frozen=True, slots=True)
class GPT:
    """A GPT-2 on `batch` sequences of `length` tokens."""

    vocabulary: int = 256
    length: int = 32
    width: int = 64
    heads: int = 4
    layers: int = 2
    batch: int = 4


GPT2_SMALL = GPT(vocabulary=50_257, length=64, width=768, heads=12, layers=12, batch=2)
