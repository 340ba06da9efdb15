"""One model in several stacks as one HTML page: figures, time by phase, the reason under each number, StableHLO.

It needs no script and asks no server; a trace's texts reach it as escaped text alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter

from markupsafe import Markup, escape

from coldstep._util.gathered import added_up
from coldstep.analysis.across.frameworks import StackRow, Stacks
from coldstep.analysis.programs.ir import Pair
from coldstep.rows.intervals import imports_as_one
from coldstep.vocabulary import UNATTRIBUTED
from coldstep_viewers.pages.frameworks_text import FIGURES, figures, lead, reasons, titles
from coldstep_viewers.pages.programs import side_by_side
from coldstep_viewers.pages.template import rendered, style, tone
from coldstep_viewers.safe_text import plain, short

_MAX_PHASES = 10
_MAX_PROGRAM_CHARS = 100_000
_OTHER = "other"
_SMALLEST_IS_BEST: dict[str, Callable[[StackRow], int | None]] = {
    "first": attrgetter("first_ns"),
    "second": attrgetter("second_ns"),
    "steady": attrgetter("steady_ns"),
    "compiles": attrgetter("compiles"),
    "memory": attrgetter("memory_bytes"),
}


def page(compared: Stacks, pairs: list[Pair], without: str) -> str:
    """The whole page; `without` is the reason why no programs are compared."""
    best = _best(compared)
    lanes, legend = bars(compared)
    stacks = []
    for at, (title, row) in enumerate(zip(titles(compared), compared.rows, strict=True)):
        cells = [(value, (at, name) in best) for name, value in figures(row).items()]
        about = {"cells": cells, "unsteady_ns": sum(row.phases.values()), "reasons": list(reasons(row))}
        stacks.append({"anchor": f"stack-{at}", "title": title, "trace": row.trace, "parts": lanes[at]} | about)
    head = {"name": short(compared.name), "lead": lead(compared), "style": style(compared.vocabulary)}
    columns, shown = list(FIGURES.values()), list(map(_program, pairs))
    return rendered(
        "compare.html", **head, columns=columns, stacks=stacks, legend=legend, programs=shown, without=without
    )


def bars(compared: Stacks) -> tuple[list[list[Part]], list[tuple[str, str]]]:
    """Each row's bar of its time by phase, all to one scale; and the legend, label and tone of each phase."""
    shown = _largest_phases(compared)
    longest = max((sum(row.phases.values()) for row in compared.rows), default=0) or 1
    legend = [(_label(compared, name), tone(compared.vocabulary, name)) for name in shown]
    return [_parts(compared, row, shown, longest) for row in compared.rows], legend


@dataclass(slots=True)
class Part:
    """A phase in a stack's bar; `left` and `width` in per cent of the longest bar."""

    label: str
    tone: str
    ns: int
    left: float
    width: float


def _best(stacks: Stacks) -> set[tuple[int, str]]:
    """The cells (row, figure) that are the best of their column, where there is anything to choose."""
    best = set()
    for name, figure in _SMALLEST_IS_BEST.items():
        known = [(value, at) for at, row in enumerate(stacks.rows) if (value := figure(row)) is not None]
        if len({value for value, _ in known}) > 1:
            least = min(known)[0]
            best |= {(at, name) for value, at in known if value == least}
    return best


def _largest_phases(stacks: Stacks) -> list[str]:
    """The phases that most time of all stacks went to, imports as one; then what is left, and what is unattributed."""
    spent = added_up(imports_as_one(row.phases) for row in stacks.rows)
    del spent[UNATTRIBUTED]
    named = [name for name, _ in spent.most_common(_MAX_PHASES)]
    return [*named, *([_OTHER] if len(spent) > len(named) else []), UNATTRIBUTED]


def _parts(stacks: Stacks, row: StackRow, shown: list[str], longest: int) -> list[Part]:
    spent = imports_as_one(row.phases)
    rest = sum(ns for name, ns in spent.items() if name not in shown)
    parts, at = [], 0
    for name in shown:
        ns = rest if name == _OTHER else spent[name]
        if ns:
            left, width = 100 * at / longest, 100 * ns / longest
            parts.append(Part(_label(stacks, name), tone(stacks.vocabulary, name), ns, left, width))
        at += ns
    return parts


def _label(stacks: Stacks, name: str) -> str:
    return "other phases" if name == _OTHER else stacks.vocabulary.phase(name)


def _program(pair: Pair) -> tuple[str, Markup]:
    title, *lines = side_by_side(pair)
    text = "\n".join(lines).strip("\n")
    return title, escape(plain(text[:_MAX_PROGRAM_CHARS]))
