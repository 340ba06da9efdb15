"""A sweep of a label as text: for each stack a table of its values, where the curve turns, and why."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from coldstep._util.figures import count, duration, size
from coldstep.analysis.across.sweeps import Point, Sweep, Sweeps
from coldstep_viewers.pages.frameworks_text import table
from coldstep_viewers.safe_text import plain, short

COLUMNS = ("First", "Until steady", "Steady", "Memory", "Compiles", "Cause")
_UNKNOWN = "-"


def cells(point: Point) -> list[str]:
    """A point's figures, in the order of COLUMNS."""
    row = point.row
    times = [row.first_ns, point.until_steady_ns, row.steady_ns]
    memory = size(row.memory_bytes) if row.memory_bytes is not None else _UNKNOWN
    compiles = f"{row.compiles:,}" if row.compiles is not None else _UNKNOWN
    return [*(duration(ns) if ns is not None else _UNKNOWN for ns in times), memory, compiles, short(point.why)]


def verdict(swept: Sweep) -> str:
    """Where the curve turns, and why."""
    at = f"Turns at {short(swept.turns_at)}" if swept.turns_at is not None else "Turns nowhere"
    return f"{at}: {swept.why}."


def text(swept: Sweeps, width: int) -> str:
    """All stacks, below each other."""
    return plain("\n".join(_lines(swept, width)))


def _lines(swept: Sweeps, width: int) -> Iterator[str]:
    traces = sum(len(each.points) for each in swept.sweeps)
    yield f"{short(swept.name)}: {count(traces, 'trace')} by {short(swept.sweeps[0].label)}"
    for each in swept.sweeps:
        yield from ("", each.words)
        rows = [(short(point.value), *cells(point)) for point in each.points]
        yield from table(short(each.label), COLUMNS, rows, width)
        yield from wrap(verdict(each), width, subsequent_indent="    ")
