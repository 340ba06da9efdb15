"""Chains of atoms by rules: bonds, angles and torsions about a value each, every molecule in the frame of its bonds.

An atom is its place in the chain, so that a model need not be blind to the atoms' order, nor to rotations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

SIZES = (4, 5, 6, 7, 8)
BATCH, KEPT = 128, 4096
CALLS = 20 * len(SIZES)
"""That a forecast is asked about."""
WIDTH, LAYERS, HEADS, WAVES = 64, 3, 4, 8
RATE, KEEP = 2e-3, 0.995
EDGES = np.linspace(0, 7, 71)
_BOND, _ANGLE, _TORSION = (1.5, 0.05), (112, 6), (60, 20)  # mean and deviation; degrees

Array = np.ndarray[Any, np.dtype[np.float32]]


class Batch(NamedTuple):
    """What an update takes: molecules, noise, a time for each, and which rows are atoms."""

    x1: Any
    x0: Any
    t: Any
    atoms: Any


@dataclass(frozen=True, slots=True)
class Trainer:
    """A model of one stack."""

    update: Callable[[Batch, float], Any]
    """A step at a rate: the loss."""
    eager: Callable[[Batch], Any] | None
    """The same without a compiler; None in JAX, which then compiles every operation by itself."""
    velocity: Callable[[Any, float], Any]
    """Of the running mean of the weights."""
    counted: Callable[[], int]
    """How often the framework counted a compile since."""


def molecules(rng: np.random.Generator, count: int, size: int) -> Array:
    """Centred positions: each atom by its bond, angle and torsion to those before it."""
    bond, angle, torsion = (rng.normal(*of, (count, size, 1)) for of in (_BOND, _ANGLE, _TORSION))
    cos, sin, turn = -np.cos(np.radians(angle)), np.sin(np.radians(angle)), np.radians(torsion)
    x = np.zeros((count, size, 3))
    x[:, 1] = bond[:, 1] * [1, 0, 0]
    x[:, 2] = x[:, 1] + bond[:, 2] * (cos[:, 2] * [1, 0, 0] + sin[:, 2] * [0, 1, 0])
    for at in range(3, size):
        along = _unit(x[:, at - 1] - x[:, at - 2])
        normal = _unit(np.cross(x[:, at - 2] - x[:, at - 3], along))
        aside = np.cos(turn[:, at]) * np.cross(normal, along) + np.sin(turn[:, at]) * normal
        x[:, at] = x[:, at - 1] + bond[:, at] * (cos[:, at] * along + sin[:, at] * aside)
    return _centred(x)


def noise(rng: np.random.Generator, count: int, size: int) -> Array:
    return _centred(rng.normal(size=(count, size, 3)))


def batches(sizes: tuple[int, ...], seed: int = 0) -> Iterator[Batch]:
    """Batches without an end, the sizes in turn; the same in every stack."""
    rng = np.random.default_rng(seed)
    kept = {size: molecules(rng, KEPT, size) for size in sizes}
    while True:
        for size in sizes:
            x1 = kept[size][rng.integers(KEPT, size=BATCH)]
            t = rng.random(BATCH, dtype=np.float32)
            yield Batch(x1, noise(rng, BATCH, size), t, np.ones(size, np.float32))


def padded(batch: Batch, sizes: tuple[int, ...]) -> Batch:
    """To the next of these sizes, by rows that are no atoms."""
    more = next(size for size in sizes if size >= len(batch.atoms)) - len(batch.atoms)
    rows = ((0, 0), (0, more), (0, 0))
    return Batch(np.pad(batch.x1, rows), np.pad(batch.x0, rows), batch.t, np.pad(batch.atoms, (0, more)))


def pairs(x: Array) -> Array:
    """The distances of all pairs of atoms, one row per molecule."""
    one, other = np.triu_indices(x.shape[1], 1)
    return np.linalg.norm(x[:, one] - x[:, other], axis=-1)


def distances(some: list[Array], others: list[Array]) -> list[float]:
    """Wasserstein, of as many: all pairs together; size by size; pair of atoms by pair of atoms; the mean of these."""
    both = [(pairs(one), pairs(other)) for one, other in zip(some, others, strict=True)]
    together = _apart(*(np.concatenate([*map(np.ravel, each)]) for each in zip(*both, strict=True)))
    by_size = [_apart(one.ravel(), other.ravel()) for one, other in both]
    by_pair = [_apart(*columns) for one, other in both for columns in zip(one.T, other.T, strict=True)]
    return [together, float(np.mean(by_size)), float(np.mean(by_pair))]


def histogram(some: list[Array]) -> list[int]:
    """How many pairs are how far apart, up to EDGES' last."""
    return np.histogram(np.concatenate([pairs(x).ravel() for x in some]), EDGES)[0].tolist()


def initial(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """A weight's first values, the same in every stack: no bias, the places of atoms far apart."""
    if len(shape) == 1:
        return np.zeros(shape, np.float32)
    width = 1 if shape[0] == SIZES[-1] else 3 * shape[1]
    return (rng.normal(size=shape) / np.sqrt(width)).astype(np.float32)


def _apart(some: Array, others: Array) -> float:
    return float(np.abs(np.sort(some) - np.sort(others)).mean())


def _unit(x: Any) -> Any:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def _centred(x: Any) -> Array:
    centred: Array = (x - x.mean(1, keepdims=True)).astype(np.float32)
    return centred
