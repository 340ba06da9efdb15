"""Programs on a report's page: each of the user's with its operations, and how two differ, side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, groupby, zip_longest

from markupsafe import Markup, escape

from coldstep._util.figures import count
from coldstep.analysis.programs.ir import Diff
from coldstep.analysis.programs.operations import UNKNOWN, Place
from coldstep.model import Trace
from coldstep_viewers.pages.programs import TOO_LONG, at, differences, side_by_side, whole
from coldstep_viewers.safe_text import plain, short

_MOST_CHARS = 1_500_000  # that all programs may take together
_MOST_OF_ONE = 100_000
_MOST_READ = 2_000_000  # of one whose lines of code are looked for
_MOST_ROWS = 400


@dataclass(slots=True)
class Shown:
    """A program, or how two differ."""

    title: str
    lines: str
    """How many; empty where the program is left out."""
    text: Markup
    tables: list[Changes] = field(default_factory=list)


@dataclass(slots=True)
class Changes:
    """What changed in one form of a program, a row each: the line of code, the text before, the text after."""

    form: str
    rows: list[tuple[str, str, str]]
    more: str


def programs(trace: Trace) -> Iterator[Shown]:
    """How the programs of recompiles differ from those that they replaced, then each of the user's, as far as there is
    room."""
    room = _MOST_CHARS
    for shown in chain(_differences(trace), _whole(trace)):
        room -= len(shown.text) + sum(len(cell) for table in shown.tables for row in table.rows for cell in row)
        if room < 0:
            yield Shown("the programs that there is no room for here: coldstep report --ir", "", Markup())
            return
        yield shown


def _differences(trace: Trace) -> Iterator[Shown]:
    for title, pair in differences(trace):
        if pair is None:
            yield Shown(f"{title}. {TOO_LONG}", "", Markup())
            continue
        lines = [*side_by_side(pair, changes=False)]
        tables = [_changes(diff) for diff in pair.diffs if diff.changes]
        number = len(lines) + sum(len(table.rows) for table in tables)
        yield Shown(title, count(number, "line"), _text("\n".join(lines)), tables)


def _whole(trace: Trace) -> Iterator[Shown]:
    for row in trace.compiles:
        for form, text in trace.details[row.id].programs.items() if row.origin == "user" else ():
            operations, shown = whole(form, text, trace.run.root) if len(text) <= _MOST_READ else ([], text)
            title = f"{short(row.function)}, {row.id}: {form}"
            yield Shown(title, count(len(shown.splitlines()), "line"), _text("\n".join((*operations, shown))))


def _text(text: str) -> Markup:
    more = len(text) - _MOST_OF_ONE
    return escape(plain(text[:_MOST_OF_ONE] + (f"\n… and {more:,} more characters" if more > 0 else "")))


def _changes(diff: Diff) -> Changes:
    rows = [*_rows(diff)]
    left = len(rows) - _MOST_ROWS
    more = f"and {count(left, 'more row')}: coldstep compare --ir --format json" if left > 0 else ""
    return Changes(diff.form, rows[:_MOST_ROWS], more)


def _rows(diff: Diff) -> Iterator[tuple[str, str, str]]:
    """The removed lines beside those added after them."""
    placed = zip(diff.changes, diff.places, strict=True)
    for is_changed, run in groupby(placed, key=lambda row: row[0][0] in "-+"):
        if not is_changed:
            yield from ((_where(place), text[2:] or text, text[2:] or text) for text, place in run)
            continue
        removed: list[tuple[str, Place]] = []
        for sign, rows in groupby(run, key=lambda row: row[0][0]):
            if sign == "-":
                removed = [*rows]
            else:
                yield from _beside(removed, [*rows])
                removed = []
        yield from _beside(removed, [])


def _beside(removed: list[tuple[str, Place]], added: list[tuple[str, Place]]) -> Iterator[tuple[str, str, str]]:
    for (before, old), (after, new) in zip_longest(removed, added, fillvalue=("", UNKNOWN)):
        yield _where(old, new), before[2:], after[2:]


def _where(*places: Place) -> str:
    return " → ".join(at(*place) for place in dict.fromkeys(places) if place != UNKNOWN)
