"""One model in several stacks as text: a table of figures, and below each stack the reason of every figure."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from textwrap import wrap

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from coldstep._util.figures import count, duration, listed, size
from coldstep.analysis.across.frameworks import StackRow, Stacks
from coldstep.analysis.programs.ir import Pair
from coldstep_viewers.pages.programs import side_by_side
from coldstep_viewers.safe_text import plain, short

_UNKNOWN = "-"
FIGURES = {
    "first": "First",
    "second": "Second",
    "steady": "Steady",
    "compiles": "Compiles",
    "graphs": "Graphs per step",
    "memory": "Memory",
    "operations": "Operations",
}
"""The figures that have a column, and their names for people."""
_OTHERS = {"ended": "Ended", "rank": "Process"}


def figures(row: StackRow) -> dict[str, str]:
    """The figures of a row, by the keys of FIGURES."""
    times = {"first": row.first_ns, "second": row.second_ns, "steady": row.steady_ns}
    numbers = {"compiles": row.compiles, "graphs": row.graphs_per_step, "operations": row.operations}
    texts = {name: duration(ns) for name, ns in times.items() if ns is not None}
    texts |= {name: f"{n:,}" for name, n in numbers.items() if n is not None}
    texts |= {"memory": size(row.memory_bytes)} if row.memory_bytes is not None else {}
    return {name: texts.get(name, _UNKNOWN) for name in FIGURES}


def reasons(row: StackRow) -> Iterator[tuple[str, str, str]]:
    """Each figure's name for people, the figure, and its reason; what else must be known of the trace comes first."""
    texts = figures(row)
    for name, words in (_OTHERS | FIGURES).items():
        if row.reasons.get(name):
            yield words, texts.get(name, ""), row.reasons[name]


def titles(stacks: Stacks) -> list[str]:
    """A title for each row; two traces of one stack are distinguished by their files, and these by their folders."""
    words = [row.words for row in stacks.rows]
    files = [(row.words, Path(row.trace).stem) for row in stacks.rows]
    return [
        f"{short(row.words)} ({short(file[1] if files.count(file) == 1 else row.trace)})"
        if words.count(row.words) > 1
        else short(row.words)
        for row, file in zip(stacks.rows, files, strict=True)
    ]


def lead(stacks: Stacks) -> str:
    """Which stack has taken the least time in all, by length of the run; "" where that is not known."""
    if not stacks.ahead:
        return ""
    named = {row.trace: title for row, title in zip(stacks.rows, titles(stacks), strict=True)}
    parts = (f"{named[each.trace]} from {count(each.steps, 'step')} on" for each in stacks.ahead)
    return f"Least time in all: {listed(parts)}."


def text(stacks: Stacks, pairs: list[Pair], without: str, width: int) -> str:
    """The table, the reasons below each stack, and how their programs differ; `without` is why none are compared."""
    return plain("\n".join(_lines(stacks, pairs, without, width)))


def _lines(stacks: Stacks, pairs: list[Pair], without: str, width: int) -> Iterator[str]:
    also = f" (all have {listed(map(short, stacks.others), 3)}, too)" if stacks.others else ""
    yield f"{short(stacks.name)}: {count(len(stacks.rows), 'trace')}, the fastest steady step first{also}"
    yield from _table(stacks, width)
    if sentence := lead(stacks):
        yield from wrap(sentence, width)
    for title, row in zip(titles(stacks), stacks.rows, strict=True):
        yield from ("", title)
        for words, value, reason in reasons(row):
            yield from wrap(f"  {words}{f' {value}' if value else ''}: {reason}", width, subsequent_indent="      ")
    yield from ("", "StableHLO")
    if without:
        yield from wrap(without, width, initial_indent="  ", subsequent_indent="  ")
    for pair in pairs:
        yield from (f"  {line}".rstrip() for line in side_by_side(pair))


def _table(stacks: Stacks, width: int) -> Iterator[str]:
    rows = [(title, *figures(row).values()) for title, row in zip(titles(stacks), stacks.rows, strict=True)]
    yield from table("", FIGURES.values(), rows, width)


def table(first: str, numbers: Iterable[str], rows: Iterable[Sequence[str]], width: int) -> Iterator[str]:
    """A table's lines: the first column is of words, the others are of numbers."""
    made = Table(box=SIMPLE_HEAD, padding=(0, 2, 0, 0), pad_edge=False)
    made.add_column(first, no_wrap=True)
    for words in numbers:
        made.add_column(words, justify="right")
    for cells in rows:
        made.add_row(*cells)
    out = io.StringIO()
    Console(file=out, width=width, no_color=True, markup=False, highlight=False, emoji=False).print(made)
    yield from (line.rstrip() for line in out.getvalue().splitlines() if line.strip())
