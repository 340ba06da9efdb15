"""A model after n updates, each padded to the next of a few sizes: its losses, and 500 molecules beside others."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from math import cos, pi
from typing import Any

import numpy as np
from benchmarks.study.program import Work
from examples.flow_matching.molecules import (
    RATE,
    SIZES,
    Array,
    Trainer,
    batches,
    distances,
    histogram,
    molecules,
    noise,
    padded,
)  # fmt: skip
from examples.flow_matching.sizes import FEW

_STEPS = 8  # of a run
_EACH, _REPEATS = 100, 6  # molecules of each size; 500 together, so many times
_POINTS = 40  # of the way from noise to molecule
_WINDOWS = 48


def work(stack: Callable[..., Trainer], way: str, n: int) -> Work:
    trainer = stack(dynamic=False)
    losses: list[Any] = []
    given = (padded(batch, FEW) for batch in batches(SIZES))

    def step() -> Any:
        for batch in islice(given, n // _STEPS):
            losses.append(trainer.update(batch, RATE * (1 + cos(pi * len(losses) / n)) / 2))
        return losses[-1:]

    def measured() -> dict[str, Any]:
        rng = np.random.default_rng(1)
        made = [[sampled(trainer, noise(rng, _EACH, size)) for size in SIZES] for _ in range(_REPEATS)]
        held = [drawn(rng) for _ in range(_REPEATS)]
        windows = np.array_split(np.array([float(loss) for loss in losses]), min(_WINDOWS, n) or 1)
        return {
            "losses": [float(each.mean()) for each in windows if len(each)],
            "distances": [*map(distances, made, held)],
            "made": [x[:3].round(3).tolist() for x in made[0]],
            "histograms": [histogram(made[0]), histogram(held[0])],
        }

    return Work(step, None, trainer.counted, measured)


def drawn(rng: np.random.Generator) -> list[Array]:
    """500 molecules by the rules."""
    return [molecules(rng, _EACH, size) for size in SIZES]


def sampled(trainer: Trainer, x: Array) -> Array:
    """From noise to molecules, by the midpoint's velocity."""
    by = np.float32(1 / _POINTS)
    for at in range(_POINTS):
        middle = x + by / 2 * np.asarray(trainer.velocity(x, at / _POINTS))
        x = x + by * np.asarray(trainer.velocity(middle, (at + 0.5) / _POINTS))
    return x
