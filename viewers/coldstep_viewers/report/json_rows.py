"""The rows of a trace as JSON, a piece at a time: the text of a long run is never in memory as a whole."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from textwrap import indent as indented
from typing import Any

from coldstep._util.median import median, quartiles
from coldstep.model import JSON_SCHEMA, SECTIONS, UNATTRIBUTED, Component, Interval, Trace
from coldstep.rows.intervals import Alike, Part, Steps, end_ns, parts, phases_of
from coldstep.vocabulary import is_of_program
from coldstep_viewers.report.headline import headline

_PIECE = 1 << 16  # characters
_FEW = 3  # of fewer steps no spread is told


def text(trace: Trace, *, changed: bool = False, indent: int | None = None, ir: bool = False) -> Iterator[str]:
    """The document of `coldstep report --json`; `changed`: with steady steps as counts and statistics, in `steady`;
    `ir`: with the programs that the trace, or a cache's key, has kept."""
    return _pieces(_document(trace, changed, indent, ir))


def _document(trace: Trace, changed: bool, indent: int | None, ir: bool) -> Iterator[str]:
    encode = json.JSONEncoder(indent=indent, default=_fields if ir else _without_graphs).encode
    between = ", " if indent is None else f",\n{' ' * indent}"
    begins = "" if indent is None else f"\n{' ' * indent}"
    yield f'{{{begins}"schema": {encode(JSON_SCHEMA)}{between}"headline": {encode(headline(trace))}'
    for name in SECTIONS:
        yield f'{between}"{name}": '
        rows: Any = getattr(trace, name)
        if name == "intervals":
            unlike, steady = _told_apart(trace.intervals) if changed else (trace.intervals, [])
            yield from _rows(unlike, encode, indent)
            if changed:
                yield f'{between}"steady": '
                yield from _rows(steady, encode, indent)
        elif name == "compiles" and ir:
            yield from _rows((_with_programs(trace, row) for row in rows), encode, indent)
        elif isinstance(rows, list):
            yield from _rows(rows, encode, indent)
        else:
            yield encode(rows) if indent is None else indented(encode(rows), " " * indent).lstrip()
    yield "}" if indent is None else "\n}"


def _rows(rows: Iterable[Any], encode: Any, indent: int | None) -> Iterator[str]:
    yield "["
    first = True
    for row in rows:
        if indent is None:
            yield encode(row) if first else f", {encode(row)}"
        else:
            yield f"{'' if first else ','}\n{indented(encode(row), ' ' * 2 * indent)}"
        first = False
    yield "]" if indent is None or first else f"\n{' ' * indent}]"


def _pieces(texts: Iterable[str]) -> Iterator[str]:
    held: list[str] = []
    size = 0
    for each in texts:
        held.append(each)
        size += len(each)
        if size >= _PIECE:
            yield "".join(held)
            held, size = [], 0
    yield "".join(held)


def _fields(row: Any) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__slots__}


def _without_graphs(row: Any) -> dict[str, Any]:
    """The same; of a graph that a cache's key holds the hash is enough."""
    fields = _fields(row)
    return fields | {"text": None} if isinstance(row, Component) and is_of_program(row.name) else fields


def _with_programs(trace: Trace, row: Any) -> dict[str, Any]:
    programs = trace.details[row.id].programs
    if not programs:
        return _fields(row)
    forms = {form: known | ({"text": programs[form]} if form in programs else {}) for form, known in row.ir.items()}
    return _fields(row) | {"ir": forms}


def _told_apart(intervals: Sequence[Interval]) -> tuple[list[Interval], list[dict[str, Any]]]:
    """The intervals in which anything happened, and a row for each stretch of steady steps and what lies between."""
    rows: list[Interval] = []
    stretches: list[list[Part]] = []
    gap: list[Interval] = []
    last: Part | None = None
    for part in parts(intervals):
        quiet = isinstance(part, Alike) or not part.compiles
        if quiet and isinstance(part, Interval) and part.kind == "between":
            rows += gap
            gap = [part]
            continue
        if quiet and part.label == "steady":
            if last is None or (last.process, last.name) != (part.process, part.name):
                stretches.append([])
            stretches[-1] += [*gap, part]
            last, gap = part, []
            continue
        rows += [*gap, *(part.rows() if isinstance(part, Alike) else [part])]
        last, gap = None, []
    rows += gap
    return rows, [_stretch(stretch) for stretch in stretches]


def _stretch(stretch: list[Part]) -> dict[str, Any]:
    steps = Steps(part for part in stretch if part.name is not None)
    walls = sorted(steps.walls())
    low, high = quartiles(walls) if len(walls) > 1 else (0.0, 0.0)
    phases = phases_of(stretch, between=True)
    unattributed = phases.pop(UNATTRIBUTED, 0)
    first, last = stretch[0], stretch[-1]
    intervals = [first.index, last.index + (len(last) - 1 if isinstance(last, Alike) else 0)]
    which: dict[str, Any] = {"process": first.process, "name": steps[0].name, "intervals": intervals}
    which |= {"steps": [steps[0].step, steps[-1].step], "count": len(steps)}
    times = {"start_ns": first.start_ns, "wall_ns": end_ns(last) - first.start_ns}
    spread = round(high - low) if len(walls) >= _FEW else None
    step_ns = {"least": walls[0], "median": round(median(walls)), "most": walls[-1], "spread": spread}
    return which | times | {"step_ns": step_ns, "phases": phases, "unattributed_ns": unattributed}
