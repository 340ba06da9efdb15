"""Puts similar parts of a report together: steps that went the same way; recompiles, breaks and findings of one kind.

A person reads one of them, and of the others a line with their number, range and spread; who wants each asks for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from coldstep._util.figures import duration, listed, numbers, scatter
from coldstep._util.gathered import gathered
from coldstep._util.median import median, quartiles
from coldstep.model import Finding, GraphBreak, Interval, Recompile, Trace
from coldstep.rows.intervals import Alike, Steps

Each = TypeVar("Each")
Row = TypeVar("Row", Finding, GraphBreak, Recompile, Finding | Recompile)

SHORTENED = "Similar and small parts are put together; --all has each by itself."
_FEW_STEPS = 5  # that are neither steady nor the first two: so many have a line each, where they differ
_DIFFER = 2  # times as long
_ALONE = 2  # of one label: so many are not worth a fold
_FEW_ROWS = 5  # recompiles, breaks or findings: so many have a block each
_MOST_FUNCTIONS = 3  # that are named where they break at one place


def beginning(steps: Steps) -> list[Interval]:
    """The first two, each of its own kind."""
    return [row for row in steps[:2] if row.step in (0, 1)]


def alike_steps(steps: Steps, every: bool) -> list[Steps]:
    """The steps behind these that are not steady: those of one label together, where there are many, or a few that took
    about as long, and not `every` one is asked for; in the order in which the first of each came."""
    begun = beginning(steps)
    rest = [part for part in _behind(steps, begun) if part.label != "steady"]
    few = sum(part.steps if isinstance(part, Alike) else 1 for part in rest) <= _FEW_STEPS
    if every:
        return [Steps([row]) for row in Steps(rest)]
    groups: list[Steps] = []
    for alike in map(Steps, gathered((part.label, part) for part in rest).values()):
        differ = few and max(walls := alike.walls()) > _DIFFER * min(walls)
        groups += [alike] if len(alike) > _ALONE and not differ else [Steps([row]) for row in alike]
    return sorted(groups, key=lambda group: group[0].index)


def _behind(steps: Steps, begun: list[Interval]) -> Iterator[Alike | Interval]:
    last = begun[-1].index if begun else -1
    for part in steps.parts:
        if isinstance(part, Alike) and part.index < last:
            if part.steps > 1:
                yield part.part((last - part.index) // 2 + 1, part.steps)
        elif part.index > last:
            yield part


def alike_rows(rows: Sequence[Each], every: bool, kind: Callable[[Each], object]) -> list[list[Each]]:
    """The rows in their order; those of one kind together, where there are many and not `every` one is asked for."""
    if every or len(rows) <= _FEW_ROWS:
        return [[row] for row in rows]
    kinds = gathered((kind(row), row) for row in rows)
    return list(kinds.values())


def dearest_first(groups: Iterable[list[Row]]) -> list[list[Row]]:
    """The kinds by what they cost all together, each with its costliest first."""
    return sorted(groups, key=lambda group: -sum(row.cost_ns for row in group))


def kind_of_recompile(trace: Trace, row: Finding | Recompile) -> object:
    """By what a recompile, or a function that recompiled again and again, is like others: its cause."""
    if isinstance(row, Recompile):
        return row.cause
    refs = {*row.refs}
    return next((each.cause for each in trace.recompiles if each.id in refs), row.kind)


def told_once(trace: Trace, rows: Iterable[Finding | Recompile]) -> tuple[list[Finding | Recompile], dict[str, str]]:
    """The rows, those that are the same in several processes once: the dearest. And of these, by their ids, where they
    were: "in ranks 0-3"."""
    kinds = gathered((_in_any_process(trace, row), row) for row in rows)
    kept: list[Finding | Recompile] = []
    where: dict[str, str] = {}
    for alike in kinds.values():
        if len({row.process for row in alike}) == 1:
            kept += alike
            continue
        dearest = max(alike, key=lambda row: row.cost_ns)
        kept.append(dearest)
        where[dearest.id] = _processes(trace, alike)
    return kept, where


def _in_any_process(trace: Trace, row: Finding | Recompile) -> object:
    """The same for what is the same in another process."""
    if isinstance(row, Finding):
        return row.text, tuple(row.evidence)
    made = next((each for each in trace.compiles if each.id == row.compile), None)
    which = (made.key, made.variant.n) if made is not None else row.id
    return which, row.cause, row.argument, row.before, row.after, row.step


def _processes(trace: Trace, rows: Iterable[Finding | Recompile]) -> str:
    indices = sorted({row.process for row in rows})
    ranks = [rank for index in indices if (rank := trace.processes[index].rank) is not None]
    return f"in ranks {numbers(ranks)}" if len(ranks) == len(indices) else f"in processes {numbers(indices)}"


def kind_of_break(row: GraphBreak) -> object:
    """By what a graph break is like others: its kind, and what to do about it."""
    return row.kind, row.advice


def at_one_place(rows: Iterable[GraphBreak]) -> list[GraphBreak]:
    """The breaks, those of one line and kind as one, however many compiled functions lead there."""
    lines = (((row.location.file, row.location.line) if row.location else row.id, row) for row in rows)
    places = gathered(((row.process, line, row.kind), row) for line, row in lines)
    return [
        replace(
            there[0],
            function=listed((row.function for row in there), _MOST_FUNCTIONS),
            count=sum(row.count for row in there),
            compiles=[id_ for row in there for id_ in row.compiles],
            cost_ns=sum(row.cost_ns for row in there),
        )
        for there in places.values()
    ]


def kind_of_finding(row: Finding) -> object:
    """By what a finding is like others."""
    return row.kind, row.severity


def in_steps(ordinals: Iterable[int | None]) -> str:
    """Where something was: " in step 1", " in steps 2-6"; nothing where in no step."""
    steps = {step for step in ordinals if step is not None}
    return f" in step{'s' if len(steps) > 1 else ''} {numbers(steps)}" if steps else ""


def costs(rows: Sequence[Row]) -> str:
    """What some of a kind cost: "1.9 s to 2.6 s, median 2.1 s ± 210 ms, 40.0 s in all"; nothing where not known."""
    return ranged([row.cost_ns for row in rows])


def ranged(times: Iterable[int]) -> str:
    """The same of any times."""
    walls = sorted(times)
    if not walls or not walls[-1]:
        return ""
    if len(walls) == 1:
        return duration(walls[0])
    scattered = f"median {spread(walls)}, " if len(walls) > _ALONE else ""
    return f"{duration(walls[0])} to {duration(walls[-1])}, {scattered}{duration(sum(walls))} in all"


def spread(walls: Sequence[int]) -> str:
    """The median of some times, and their interquartile range: "2.3 ms ± 210 µs"."""
    low, high = quartiles(walls)
    usual = round(median(walls))
    return f"{duration(usual)} {scatter(usual, round(high - low))}"
