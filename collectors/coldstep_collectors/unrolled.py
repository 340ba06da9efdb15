"""Finds the Python loop of which a program holds every turn, by the user's lines that its operations come from.

Where each turn reads inputs of its own, as the layers of a network read their weights, the turns are layers: they count
where they are alike, down to the shapes.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache

from coldstep._util.slotted import slotted
from coldstep.events import Args
from coldstep.recording.garbage import none_collected
from coldstep_collectors.source_lines import statement_around, walked

MOST = 2000
"""Operations of one program that are looked at."""
LEAST = 40
"""Operations of a program in which there may be a loop."""
_LEAST_TURNS, _LEAST_SHARE = 8, 0.5
_LOOPS = (ast.For, ast.While, ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.SetComp)

Line = tuple[str, int, str]
"""File, line and function."""


@slotted
class Operation:
    """One operation of a program, as written."""

    name: str
    """What it does."""
    lines: Sequence[Line]
    """Where it comes from: the user's lines within the traced function, outermost first."""
    inputs: Sequence[object]
    """Of the program's own inputs, those that it reads."""
    shape: str = ""
    """The shape of what it gives."""


_Groups = dict[tuple[Line, ...], list[Operation]]
"""A program's operations by the lines that they come from."""


@slotted
class _Loop:
    """A loop in a file of the user's."""

    file: str
    first: int
    """Its own line."""
    last: int

    def holds(self, line: int) -> bool:
        """Whether a line of that file is in it."""
        return self.first <= line <= self.last


def unrolled(operations: Sequence[Operation]) -> Args | None:
    """Where the loop is, how many turns the program holds of it, and how many operations; None where there is none."""
    if len(operations) < LEAST or not _may_be_turns(operations):
        return None
    groups: _Groups = {}
    for each in operations:  # a thousand come from a few places
        groups.setdefault(tuple(each.lines), []).append(each)
    counted: Counter[str] = Counter()
    for lines, group in groups.items():
        counted.update(dict.fromkeys((file for file, _, _ in lines), len(group)))
    # the whole loop is in one file; to read each would take a second of a model of many
    files = [file for file, times in counted.items() if times >= _fewest(len(operations))]
    places = {file: {line for each in groups for of, line, _ in each if of == file} for file in files}
    loops = [loop for file, lines in places.items() for loop in _loops(file, lines)]
    loops.sort(key=lambda loop: loop.last - loop.first)
    for loop in loops:  # the innermost first
        if (turns := _turns(loop, groups, len(operations))) is not None:
            return turns
    return None


def _may_be_turns(operations: Sequence[Operation]) -> bool:
    """Whether one operation is there as often as a loop has turns at least: if none is, no file need be read."""
    times = Counter((each.name, each.lines[-1], each.shape) for each in operations if each.lines)
    return max(times.values(), default=0) >= _LEAST_TURNS


def _turns(loop: _Loop, groups: _Groups, of: int) -> Args | None:
    within = [(below, group) for lines, group in groups.items() if (below := _below(loop, lines))]
    number = sum(len(group) for _, group in within)
    if number < _fewest(of):
        return None
    inputs = {value for _, group in within for each in group for value in each.inputs}
    turns = _number(Counter((each.name, below, each.shape) for below, group in within for each in group).values())
    if turns < _LEAST_TURNS:
        return None
    place = {"file": loop.file, "line": loop.first, "function": within[0][0][0][2]}
    called = sum(len(group) for below, group in within if len(below) > 1)  # by what a turn calls of the user's
    made: Args = {"location": place, "turns": turns, "operations": number, "of": of, "called": called}
    return made | {"layers": True} if len(inputs) > turns / 2 else made


def _number(per_kind: Collection[int]) -> int:
    """How many turns there are, by how often the program has each kind of operation: of most kinds each turn has one,
    of the others two, three. 0 where that explains less than half of them: then few turns have a loop in each."""
    explained = {turns: sum(times for times in per_kind if times % turns == 0) for turns in set(per_kind)}
    most = max(explained, key=lambda turns: (explained[turns] if turns >= _LEAST_TURNS else 0, turns))
    return most if 2 * explained[most] >= sum(per_kind) else 0


def _fewest(of: int) -> float:
    """How many of a program's operations are in the loop at least."""
    return max(LEAST, _LEAST_SHARE * of)


def _below(loop: _Loop, lines: Sequence[Line]) -> tuple[Line, ...]:
    """The lines from the loop inwards; () of what comes from elsewhere."""
    at = next((i for i, (file, line, _) in enumerate(lines) if file == loop.file and loop.holds(line)), None)
    return tuple(lines[at:]) if at is not None else ()


def _loops(file: str, lines: Collection[int]) -> Iterator[_Loop]:
    """The loops in the outermost statements of a file that those lines are in: a model's file may be long."""
    seen = range(0)
    for line in sorted(lines):
        if line not in seen:
            seen = statement_around(file, line)
            yield from _loops_in(file, seen)


@lru_cache(maxsize=64)
def _loops_in(file: str, lines: range) -> tuple[_Loop, ...]:
    with none_collected():
        loops = (node for node in walked(file, lines) if isinstance(node, _LOOPS))
        return tuple(_Loop(file, node.lineno, node.end_lineno or node.lineno) for node in loops)
