"""Finds the operations that a loop or a function runs one by one, beside what it has compiled.

Each compiles a small program the first time, and is handed over by itself every time.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from coldstep._util.figures import listed
from coldstep._util.slotted import slotted
from coldstep.analysis.make_finding import MOST_NAMED, finding
from coldstep.analysis.remedies.blocks import Loop, block_around
from coldstep.analysis.remedies.jitted import jitted
from coldstep.analysis.steps.eager_programs import into_one_program, jittable_around
from coldstep.model import Compile, Finding, Location, Trace
from coldstep.rows.intervals import alone

_LEAST_STEPS = 3
_LEAST_PROGRAMS = 5  # fewer are a detail and not a habit
_INTO_ONE = (
    "Put these operations into the jitted function, or into one of their own: now each is compiled by itself, and "
    "handed over by itself in each step."
)


@slotted
class Unit:
    """The lines that a program runs again in each step: of a function without a loop around the step, or of a loop."""

    name: str
    file: str
    first: int
    last: int

    def holds(self, place: Location | None) -> bool:
        """Whether a line is one of them."""
        return place is not None and place.file == self.file and self.first <= place.line <= self.last


def one_by_one(trace: Trace, programs: list[Compile]) -> list[Finding]:
    """For each unit with many of these programs, and for each function that may be jitted as it is, a finding."""
    made: list[Finding] = []
    left = {row.id: row for row in programs}
    for process, unit in _units(trace):
        within = [row for row in left.values() if row.process == process and unit.holds(row.caller)]
        if len(within) >= _LEAST_PROGRAMS:
            made.append(_finding(trace, f"{unit.name} runs operations one by one in each step", within))
            for row in within:
                del left[row.id]
    by_function: dict[tuple[int, str, int], list[Compile]] = defaultdict(list)
    for row in left.values():
        if (block := jittable_around(trace, row)) is not None and jitted(block) is not None:
            by_function[row.process, block.file, block.first].append(row)
    for within in by_function.values():
        if len(within) >= _LEAST_PROGRAMS and (block := jittable_around(trace, within[0])) is not None:
            name = block.tree.name if isinstance(block.tree, ast.FunctionDef) else ""
            made.append(_finding(trace, f"{name} runs operations one by one", within))
    return made


def _units(trace: Trace) -> Iterator[tuple[int, Unit]]:
    """By process, those in which steps were inferred; of marked steps no line is known."""
    lines: dict[tuple[int, str, int], tuple[Location, int]] = {}
    for row in alone(trace.intervals):
        place = row.inferred_by.location if row.kind == "step" and row.inferred_by is not None else None
        if place is not None:
            key = row.process, place.file, place.line
            lines[key] = place, lines.get(key, (place, 0))[1] + 1
    for (process, _, _), (place, times) in lines.items():
        if times >= _LEAST_STEPS and (unit := _around(trace, place)) is not None:
            yield process, unit


def _around(trace: Trace, place: Location) -> Unit | None:
    block = block_around(trace.blocks, place)
    statements = block.within(place.line) if block is not None else ()
    around = [each for each in statements if isinstance(each, Loop | ast.FunctionDef)]
    match around:
        case [ast.FunctionDef(name=name) as unit]:
            pass
        case [*_, (ast.For() | ast.While()) as unit]:
            name = f"the loop in line {unit.lineno}"
        case _:
            return None
    return Unit(name, place.file, unit.lineno, unit.end_lineno or unit.lineno)


def _finding(trace: Trace, text: str, programs: list[Compile]) -> Finding:
    dearest = max(programs, key=lambda row: row.wall_ns)
    first = trace.intervals[programs[0].segments[0].interval]
    mended = into_one_program(trace, programs)
    names = listed((row.function for row in programs), MOST_NAMED)
    return finding(
        "eager_compiles",
        "warning" if mended else "note",
        f"{text}: {len(programs)} small programs were compiled for them ({names})",
        at=first,
        cost_ns=sum(row.wall_ns for row in programs),
        location=dearest.caller,
        advice=_INTO_ONE,
        refs=[row.id for row in programs],
        remedies=mended or None,
    )
