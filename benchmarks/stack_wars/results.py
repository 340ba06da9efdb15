"""What a run of the stack wars left: of each model, what became of every pair, and what the traces say together."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.stack_wars import STACKS
from benchmarks.stack_wars.models import MODELS
from benchmarks.stack_wars.pair import Row, read

import coldstep
from coldstep.analysis.across.frameworks import NotComparable, StackRow, Stacks, compare
from coldstep.errors import TraceError
from coldstep.model import Trace


@dataclass(slots=True)
class War:
    """What is there of one model at one size."""

    ended: dict[str, Row]
    """By stack, what became of the pair."""
    traced: dict[str, StackRow]
    """By stack, what its trace says."""
    stacks: Stacks | None
    """The comparison of these; None where no trace has steps."""
    traces: dict[str, Trace]
    """By stack, what the comparison was made of."""


def fought(folder: Path) -> dict[str, War]:
    """By model, what the folder of one size holds."""
    found = {}
    for model in MODELS:
        paths = {stack: folder / model / f"{stack}.pftrace" for stack in STACKS}
        ended = {stack: read(path) for stack, path in paths.items() if path.with_suffix(".json").exists()}
        if not ended:
            continue
        traces = []
        for stack in ended:
            with suppress(TraceError):
                traces.append((stack, coldstep.load(paths[stack])))
        stacks = None
        with suppress(NotComparable):
            stacks = compare(traces)
        traced = {row.trace: row for row in stacks.rows} if stacks is not None else {}
        found[model] = War(ended, traced, stacks, dict(traces))
    return found
