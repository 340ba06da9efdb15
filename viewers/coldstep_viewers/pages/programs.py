"""Programs as text: those of one trace (`report --ir`), and two side by side (`compare --ir`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from itertools import chain, islice
from typing import Any

from coldstep._util.figures import count
from coldstep.analysis.programs.alignment import Place
from coldstep.analysis.programs.ir import Diff, Inputs, Pair, compare
from coldstep.analysis.programs.operations import UNKNOWN, by_place
from coldstep.analysis.programs.sources import Spot, readable
from coldstep.model import Compile, Trace
from coldstep_viewers.safe_text import short

_COMPARED_LINES = 2_000
_COMPARED_CHARS = 100_000
TOO_LONG = "They are too long to be compared here: coldstep compare --ir compares them"
_MOST_PLACE_CHARS = 60
_MOST_PLACES = 3
_MOST_SPOTS = 4
_MOST_LINES = 60
_MOST_ROWS = 20
_WIDTH = 160
_UNSOURCED = (
    "  torch_xla shows the source lines of its operations in programs run with XLA_IR_DEBUG=1 XLA_HLO_DEBUG=1,\n"
    "  which makes other graphs of them for its caches."
)


def programs(trace: Trace) -> Iterator[str]:
    """Every program that the trace has kept, with its operations by line of code; and how those of recompiles differ
    from those that they replaced."""
    for row in trace.compiles:
        for form, text in trace.details[row.id].programs.items():
            operations, shown = whole(form, text, trace.run.root)
            number = shown.count("\n") + 1
            yield f"=== {_name(row, row.stack)}: {form}, {count(number, 'line')}"
            yield from (*operations, shown, "")
    for title, pair in differences(trace):
        yield f"=== {title}"
        yield from side_by_side(pair) if pair is not None else (TOO_LONG,)
        yield ""


def differences(trace: Trace) -> Iterator[tuple[str, Pair | None]]:
    """How the programs of recompiles differ from those that they replaced; None of those that are too long to be
    compared in no time."""
    by_id = {row.id: row for row in trace.compiles}
    for row in trace.recompiles:
        before, after = by_id.get(row.previous or ""), by_id[row.compile]
        texts = [[*trace.details[each.id].programs.values()] for each in (before, after) if each is not None]
        if before is not None and before.stack == after.stack and all(texts):
            is_small = all(
                text.count("\n") <= _COMPARED_LINES and len(text) <= _COMPARED_CHARS for text in chain(*texts)
            )
            title = f"{short(after.function)}, {before.id} → {after.id}: what differs"
            yield title, compare(trace, before, trace, after) if is_small else None


def whole(form: str, text: str, root: str) -> tuple[list[str], str]:
    """A program: lines with its operations by line of code, and its text."""
    counted = by_place(form, text, root)
    rows = [(at(*place), _times(operations)) for place, operations in counted.items()]
    width = min(_MOST_PLACE_CHARS, max((len(place) for place, _ in rows), default=0))
    lines = [f"{place:{width}}  {operations}" for place, operations in rows]
    if [*counted] == [UNKNOWN]:
        lines = [f"Without their lines of code: {rows[0][1]}"]
    shown = readable(text, root).strip("\n") if form == "stablehlo" else text
    return [*lines, ""] if lines else [], shown


def side_by_side(pair: Pair, changes: bool = True) -> Iterator[str]:
    """How two programs differ; with their lines that changed, or without."""
    before, after = pair.before, pair.after
    yield f"{_name(before, pair.names[0])} → {_name(after, pair.names[1])}"
    if pair.structure is not None:
        yield from _structure(pair)
    yield from _inputs(pair.inputs)
    for diff in pair.diffs:
        yield from _form(diff)
        yield from _changed(diff) if changes else ()
    if not pair.diffs:
        yield "No form of the program was kept of both."


def data(pair: Pair) -> dict[str, Any]:
    """The same as data, with all places and the whole diff."""
    compiles = (pair.before, pair.after)
    before, after = ({"compile": row.id, "stack": row.stack, "function": row.function} for row in compiles)
    forms = []
    for diff in pair.diffs:
        types = [{"before": was, "after": now, "count": n} for (was, now), n in diff.types.items()]
        forms.append(asdict(diff) | {"types": types})
    structure = None if pair.structure is None else asdict(pair.structure)
    return {"before": before, "after": after, "inputs": asdict(pair.inputs), "forms": forms, "structure": structure}


def _name(row: Compile, stack: str) -> str:
    which = f", variant {row.variant.n}" if row.variant.n > 1 else ""
    return f"{row.id} {short(row.function)} ({stack}{which})"


def _structure(pair: Pair) -> Iterator[str]:
    assert pair.structure is not None
    total = pair.structure.anchors
    of = str(total[0]) if total[0] == total[1] else f"{total[0]} and {total[1]}"
    yield ""
    yield f"Structure, by {pair.structure.aligned} of {of} contractions, gathers and the like that were paired:"
    if not pair.structure.differences:
        yield "    no difference"
    for each in pair.structure.differences:
        yield f"  - {each.text}"
        yield from (f"      {_place(place, pair.names)}" for place in each.places[:_MOST_PLACES])
        if (more := len(each.places) - _MOST_PLACES) > 0:
            yield f"      and {count(more, 'more place', 'more places')}"
    spots = [spot for each in pair.structure.differences for place in each.places for spot in (*place.a, *place.b)]
    if "torch_xla" in (pair.before.stack, pair.after.stack) and spots and not all(spot.source for spot in spots):
        yield _UNSOURCED


def _place(place: Place, names: tuple[str, str]) -> str:
    return " · ".join(f"{name} {_spots(spots)}" for name, spots in zip(names, (place.a, place.b), strict=True) if spots)


def _spots(spots: list[Spot]) -> str:
    lines = [str(spot.line) for spot in spots]
    shown = ", ".join(lines[:_MOST_SPOTS]) + (f" … {lines[-1]}" if len(lines) > _MOST_SPOTS else "")
    source = next((spot.source for spot in spots if spot.source is not None), None)
    where = (
        f" ({source.file}:{source.line}{f' in {short(source.function)}' if source.function else ''})" if source else ""
    )
    return f"line{'s' if len(lines) > 1 else ''} {shown}{where}"


def _inputs(inputs: Inputs) -> Iterator[str]:
    if not (inputs.added or inputs.removed or inputs.changed):
        return
    yield from ("", "Inputs:")
    yield from _some([f"  - {text}" for text in inputs.removed])
    yield from _some([f"  + {text}" for text in inputs.added])
    yield from _some([f"  {name}: {was} → {now}" for name, was, now in inputs.changed])


def _form(diff: Diff) -> Iterator[str]:
    was, now = diff.lines
    yield from ("", f"{diff.form}, {count(now, 'line') if was == now else f'{was} → {now} lines'}:")
    if not (diff.operations or diff.constants or diff.types or diff.changes):
        yield "    no difference"
    places = [f"    {at(row.file, row.line)}: {_times(row.before)} → {_times(row.after)}" for row in diff.by_place]
    yield from _some([f"    {op}: {a} → {b}" for op, (a, b) in diff.operations.items()], "  operations:")
    yield from _some(places, "  by line of code, only before → only after:")
    yield from _some([f"    {value}: {a} → {b}" for value, (a, b) in diff.constants.items()], "  constants:")
    yield from _some([f"    {a} → {b}: {count(n, 'time')}" for (a, b), n in diff.types.items()], "  types only:")


def _changed(diff: Diff) -> Iterator[str]:
    for line, place in islice(zip(diff.changes, diff.places, strict=True), _MOST_LINES):
        where = f"  # {at(*place)}" if line[0] in "+-" and place != UNKNOWN else ""
        yield f"    {line[:_WIDTH]}{where}"
    if len(diff.changes) > _MOST_LINES:
        yield f"    … {len(diff.changes) - _MOST_LINES} more lines; --format json has them all"


def at(file: str, line: int) -> str:
    return f"{file}:{line}" if file else "no line"


def _times(operations: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ({n})" if n > 1 else name for name, n in operations.items()) or "-"


def _some(rows: list[str], title: str = "") -> Iterator[str]:
    """The first of the rows, below a title where there is any."""
    if title and rows:
        yield title
    yield from rows[:_MOST_ROWS]
    if len(rows) > _MOST_ROWS:
        yield f"    … and {len(rows) - _MOST_ROWS} more"
