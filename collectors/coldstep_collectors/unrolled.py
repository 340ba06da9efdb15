"""Finds the Python loop of which a program holds every turn, by the user's lines that its operations come from.

Where each turn reads inputs of its own, as the layers of a network read their weights, the turns are layers: they count
where they are alike, down to the shapes.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Sequence
from functools import lru_cache

from coldstep._util.slotted import slotted
from coldstep.events import Args
from coldstep.recording.garbage import none_collected
from coldstep_collectors.source_lines import walked

MOST = 2000
"""Operations of one program that are looked at."""
_LEAST, _LEAST_TURNS, _LEAST_SHARE = 40, 8, 0.5
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
    if len(operations) < _LEAST:
        return None
    counted = Counter(file for each in operations for file in {line[0] for line in each.lines})
    # the whole loop is in one file; to read each would take a second of a model of many
    files = [file for file, times in counted.items() if times >= _fewest(operations)]
    loops = sorted((loop for file in files for loop in _loops(file)), key=lambda loop: loop.last - loop.first)
    for loop in loops:  # the innermost first
        if (turns := _turns(loop, operations)) is not None:
            return turns
    return None


def _turns(loop: _Loop, operations: Sequence[Operation]) -> Args | None:
    within = [(each, below) for each in operations if (below := _below(loop, each.lines))]
    if len(within) < _fewest(operations):
        return None
    inputs = {value for each, _ in within for value in each.inputs}
    turns = _number(Counter((each.name, below, each.shape) for each, below in within).values())
    if turns < _LEAST_TURNS:
        return None
    function = within[0][1][0][2]
    place = {"file": loop.file, "line": loop.first, "function": function}
    called = sum(len(below) > 1 for _, below in within)  # by what a turn calls, a function or a module of the user's
    made: Args = {"location": place, "turns": turns, "operations": len(within), "of": len(operations), "called": called}
    return made | {"layers": True} if len(inputs) > turns / 2 else made


def _number(per_kind: Collection[int]) -> int:
    """How many turns there are, by how often the program has each kind of operation: of most kinds each turn has one,
    of the others two, three. 0 where that explains less than half of them: then few turns have a loop in each."""
    explained = {turns: sum(times for times in per_kind if times % turns == 0) for turns in per_kind}
    most = max(per_kind, key=lambda turns: (explained[turns] if turns >= _LEAST_TURNS else 0, turns))
    return most if 2 * explained[most] >= sum(per_kind) else 0


def _fewest(operations: Sequence[Operation]) -> float:
    """How many of a program's operations are in the loop at least."""
    return max(_LEAST, _LEAST_SHARE * len(operations))


def _below(loop: _Loop, lines: Sequence[Line]) -> tuple[Line, ...]:
    """The lines from the loop inwards; () of what comes from elsewhere."""
    at = next((i for i, (file, line, _) in enumerate(lines) if file == loop.file and loop.holds(line)), None)
    return tuple(lines[at:]) if at is not None else ()


@lru_cache(maxsize=64)
def _loops(file: str) -> tuple[_Loop, ...]:
    with none_collected():
        loops = (node for node in walked(file) if isinstance(node, _LOOPS))
        return tuple(_Loop(file, node.lineno, node.end_lineno or node.lineno) for node in loops)
