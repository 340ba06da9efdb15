"""Finds the operations that a loop or a function runs one by one, beside what it has compiled.

Each compiles a small program the first time, and is handed over by itself every time.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from coldstep._util.figures import listed
from coldstep._util.slotted import slotted
from coldstep.analysis.make_finding import MOST_NAMED, About, finding
from coldstep.analysis.remedies.blocks import Block, Loop, block_around
from coldstep.analysis.remedies.jitted import jitted
from coldstep.analysis.remedies.made_at_once import made_at_once
from coldstep.analysis.steps.eager_programs import into_one_program, jittable_around
from coldstep.model import Compile, Finding, Location, Remedy, Severity, Trace, Within
from coldstep.rows.intervals import alone, kinds

_LEAST_STEPS = 3
_LEAST_PROGRAMS = 5  # fewer are a detail and not a habit
_INTO_ONE = (
    "Put these operations into the jitted function, or into one of their own: now each is compiled by itself, and "
    "handed over by itself in each step."
)

_ABOVE_THE_LOOP = (
    "Jit the function that this line calls once, above the loop, and call what jax.jit returns: now each of its "
    "operations is compiled by itself, and handed over by itself in each turn."
)
_WITHIN_THE_CALL = (
    "This line drops what the call returns, so jax.jit of the call would lose what it does. Where it is yours, jit "
    "the part that computes: a function that takes arrays and returns the new ones. Where it is a library's, a cache "
    "on disk (jax_compilation_cache_dir, with jax_persistent_cache_min_compile_time_secs 0) spares the next process "
    "these."
)
_HANDS_ON = {"add", "append", "block_until_ready", "debug", "extend", "float", "info", "log", "print", "wait", "write"}
"""Names of calls of which an argument is what computes."""


@slotted
class Unit:
    """The lines that a program runs again in each step: of a function without a loop around the step, or of a loop."""

    name: str
    file: str
    first: int
    last: int

    def runs(self, row: Compile, within: Within | None) -> bool:
        """Whether one of them runs a program, or calls a function that does and may be jitted with it."""
        places = (row.caller, within.jittable if within is not None else None)
        return any(at is not None and at.file == self.file and self.first <= at.line <= self.last for at in places)


def one_by_one(trace: Trace, programs: list[Compile]) -> list[Finding]:
    """For each unit with many of these programs, and for each function that may be jitted as it is, a finding."""
    made: list[Finding] = []
    left = {row.id: row for row in programs}
    stepped = {process for process, _ in kinds(trace.intervals)}
    for process, unit in _units(trace):
        rows = [row for row in left.values() if row.process == process and unit.runs(row, trace.details[row.id].within)]
        if len(rows) >= _LEAST_PROGRAMS:
            made.append(_finding(trace, f"{unit.name} runs operations one by one in each step", rows))
            for row in rows:
                del left[row.id]
    by_function: dict[tuple[int, str, int], list[Compile]] = defaultdict(list)
    by_making: dict[tuple[int, str, int, str], list[Compile]] = defaultdict(list)
    by_loop: dict[tuple[int, str, int], list[Compile]] = defaultdict(list)
    for row in left.values():
        within = trace.details[row.id].within
        around = jittable_around(trace, row)
        if around is not None and jitted(*around) is not None and not _failed(trace, around[0]):
            by_function[row.process, around[0].file, around[0].first].append(row)
        elif within is not None and within.made_at is not None:
            by_making[row.process, within.made_at.file, within.made_at.line, within.made].append(row)
        elif row.process not in stepped and (loop := _loop_around(trace, _looped_at(row, within))) is not None:
            by_loop[row.process, *loop].append(row)
    for rows in by_function.values():
        if len(rows) >= _LEAST_PROGRAMS and (around := jittable_around(trace, rows[0])) is not None:
            name = around[0].tree.name if isinstance(around[0].tree, ast.FunctionDef) else ""
            made.append(_finding(trace, f"{name} runs operations one by one", rows))
    for rows in by_making.values():
        within = trace.details[rows[0].id].within
        remedies = made_at_once(trace, within) if within is not None else []
        if len(rows) >= _LEAST_PROGRAMS and within is not None and remedies:
            what = "the weights are" if within.made == "init" else f"{within.made} is"
            made.append(_finding(trace, f"{what} made operation by operation", rows, within.made_at, remedies))
    for (_, _, line), rows in by_loop.items():
        if len(rows) >= _LEAST_PROGRAMS:
            dearest = max(rows, key=lambda row: row.wall_ns)
            at = _looped_at(dearest, trace.details[dearest.id].within)
            text = f"the loop in line {line} runs operations one by one"
            advice = _WITHIN_THE_CALL if _is_for_its_effect(trace, at) else _ABOVE_THE_LOOP
            made.append(_finding(trace, text, rows, at, advice=advice))
    return made


def _failed(trace: Trace, function: Block) -> bool:
    """Whether it was compiled, and that failed."""
    name = function.tree.name if isinstance(function.tree, ast.FunctionDef) else ""
    failed = (row.location for row in trace.compiles if row.outcome == "failed" and row.location is not None)
    return any(at.file == function.file and at.function.rpartition(".")[2] == name for at in failed)


def _looped_at(row: Compile, within: Within | None) -> Location | None:
    """The line of the outermost loop that runs a program; outside of any function, the line that does."""
    return within.looped_at if within is not None else row.caller


def _loop_around(trace: Trace, place: Location | None) -> tuple[str, int] | None:
    """File and first line of the outermost loop around a line."""
    block = block_around(trace.blocks, place) if place is not None else None
    if block is None or place is None:
        return None
    loops = (each for each in block.within(place.line) if isinstance(each, Loop))
    return next(((block.file, each.lineno) for each in loops), None)


def _is_for_its_effect(trace: Trace, place: Location | None) -> bool:
    """Whether a line calls something and leaves what it returns."""
    block = block_around(trace.blocks, place) if place is not None else None
    innermost = list(block.within(place.line))[-1:] if block is not None and place is not None else []
    match innermost:
        case [ast.Expr(value=ast.Call(func=ast.Name() | ast.Attribute() as called))]:
            path = ast.unparse(called).split(".")
            return all(map(str.isidentifier, path)) and path[-1] not in _HANDS_ON
    return False


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


def _finding(
    trace: Trace,
    text: str,
    programs: list[Compile],
    location: Location | None = None,
    remedies: list[Remedy] | None = None,
    advice: str = _INTO_ONE,
) -> Finding:
    dearest = max(programs, key=lambda row: row.wall_ns)
    first = trace.intervals[programs[0].segments[0].interval]
    mended = remedies or into_one_program(trace, programs)
    names = listed((row.function for row in programs), MOST_NAMED)
    text = f"{text}: {len(programs)} small programs were compiled for them ({names})"
    severity: Severity = "warning" if mended or advice == _ABOVE_THE_LOOP else "note"
    cost_ns, refs = sum(row.wall_ns for row in programs), [row.id for row in programs]
    about = About(severity=severity, cost_ns=cost_ns, advice=advice, refs=refs, remedies=mended or None)
    return finding("eager_compiles", text, at=first, location=location or dearest.caller, **about)
