"""Has a module of Flax's or Equinox', or its weights, made by one compiled program: where one statement makes it."""

from __future__ import annotations

import ast

from coldstep.analysis.remedies.blocks import Written, block_around, block_of_line, read
from coldstep.analysis.remedies.jitted import jit_called
from coldstep.analysis.remedies.row import Row
from coldstep.analysis.remedies.table import Case, Place, remedies
from coldstep.model import Remedy, Trace, Within

MADE = "jax.made:"
"""How the ids of these remedies begin."""
_AT_ONCE = Row(
    "{text} in one compiled program: now each of its operations is compiled by itself.",
    instead="{written}",
    changes="rounding",
)
_NNX = "flax.nnx.jit"
_RANDOM = "rng"  # in the name of what a module of Flax NNX takes random numbers from, which that changes


def made_at_once(trace: Trace, within: Within) -> list[Remedy]:
    """The statement that makes it, with that call jitted; none where it does not stand in the trace, or has no such
    call."""
    if within.made_at is None or (written := _written(trace, within)) is None:
        return []
    text = "Make the weights" if within.made == "init" else f"Make {within.made}"
    place = Place(written.location, lines=written.lines)
    return remedies(_AT_ONCE, Case(f"{MADE}{within.made}", {"text": text, "written": written.code}, place))


def _written(trace: Trace, within: Within) -> Written | None:
    place = within.made_at
    assert place is not None
    block = block_around(trace.blocks, place) or block_of_line(place, trace.code.get((place.file, place.line), ""))
    if block is None:
        return None
    statement = [*block.within(place.line)][-1]
    calls = [each for each in ast.walk(statement) if isinstance(each, ast.Call) and _name(each.func) == within.made]
    if len(calls) != 1 or not isinstance(statement, ast.Assign | ast.AnnAssign | ast.Return):
        return None
    [call] = calls
    if (called := jit_called(within.by, read(statement))) is None:
        return None
    jit, imported = called
    given = {name for each in (*call.args, *call.keywords) for name in read(each)} if within.by == _NNX else set[str]()
    random = ", ".join(sorted(name for name in given if _RANDOM in name))
    last = statement.end_lineno or statement.lineno
    lines = block.wrapped(call, f"{jit}(lambda{random and ' ' + random}: ", f")({random})", statement.lineno, last)
    indent = lines[0][: len(lines[0]) - len(lines[0].lstrip())]
    lines = [*(indent + line for line in imported), *lines]
    return block.written(statement.lineno, last, lines, place.function)


def _name(callee: ast.expr) -> str:
    return callee.attr if isinstance(callee, ast.Attribute) else callee.id if isinstance(callee, ast.Name) else ""
