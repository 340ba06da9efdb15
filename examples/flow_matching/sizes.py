"""An update for each of n sizes in a step: as they are, with the size left open, padded to the longest, or to a few."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from benchmarks.study.program import Work
from examples.flow_matching.molecules import RATE, SIZES, Trainer, batches, padded

FEW = (4, 6, 8)
"""The sizes that `coldstep forecast` chose for JAX without a trace."""


def work(stack: Callable[..., Trainer], way: str, n: int) -> Work:
    trainer = stack(dynamic=way == "dynamic")
    to = {"padded": SIZES[n - 1 : n], "few": FEW}.get(way, SIZES)
    given = [padded(batch, to) for batch in islice(batches(SIZES[:n]), n)]
    eager = (lambda: [*map(trainer.eager, given)]) if trainer.eager is not None else None
    return Work(lambda: [trainer.update(batch, RATE) for batch in given], eager, trainer.counted)
