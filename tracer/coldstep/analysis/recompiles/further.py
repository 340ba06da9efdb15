"""What a recompile was for beside its cause: further changes, each of which alone would have compiled it again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from coldstep.analysis.patterns import pattern_of
from coldstep.analysis.recompiles.rows import callers_of, with_advice
from coldstep.model import Change, Recompile, Trace

_INDEPENDENT = (
    "new_function", "closure", "global", "identity", "static_argument", "python_scalar", "shape", "dtype",
)  # fmt: skip
"""Causes that do not follow from one another: a mode changes dtypes, too, and a place pins others."""


def further(trace: Trace) -> dict[str, list[Recompile]]:
    """By the id of a recompile, a row like it for each further cause, which is none of the trace's."""
    compiles = {row.id: row for row in trace.compiles}
    callers = callers_of(trace, trace.compiles)
    rows = {}
    for row in trace.recompiles:
        if all(each.how == "none" for each in row.remedies):
            continue  # it would compile all the same
        others = [
            replace(
                row,
                cause=change.mechanism,
                pattern=None,
                argument=change.argument,
                before=change.before,
                after=change.after,
                changes=[each for each in row.changes if each.mechanism == change.mechanism],
            )
            for change in _beside(trace, row, compiles[row.compile].stack)
        ]
        for other in others:
            other.pattern = pattern_of(other, [other], trace)
            with_advice(trace, other, compiles[row.compile], callers)
        if others:
            rows[row.id] = others
    return rows


def _beside(trace: Trace, row: Recompile, stack: str) -> Iterator[Change]:
    """The first change by each other mechanism, in another argument. Of Dynamo's guards only the first that failed is
    known, and an argument that is not used has none."""
    known, places = {row.cause}, [row.argument or ""]
    for change in row.changes if row.cause in _INDEPENDENT and trace.vocabulary.exact(stack) else ():
        place = change.argument or ""
        if change.mechanism not in _INDEPENDENT or change.mechanism in known:
            continue
        if any(_is_within(place, each) or _is_within(each, place) for each in places):
            continue
        known.add(change.mechanism)
        places.append(place)
        yield change


def _is_within(place: str, other: str) -> bool:
    """Whether a place is the other one or a part of it: `batch['x']` is of `batch`, and `args[1]` not of `args[0]`."""
    return place == other or place.startswith((f"{other}.", f"{other}["))
