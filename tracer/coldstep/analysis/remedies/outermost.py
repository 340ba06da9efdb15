"""Jits a transform of JAX around a jitted function, where a loop calls it: made once, above the loop."""

from __future__ import annotations

import ast

from coldstep.analysis.remedies.blocks import Block, Loop, Written, assigned, bindings, block_around, read, root
from coldstep.analysis.remedies.jitted import jit_called
from coldstep.analysis.remedies.row import Row
from coldstep.analysis.remedies.table import NOWHERE, Case, Place, remedies
from coldstep.model import Finding, Remedy, Trace

_OUTERMOST = Row(
    "Jit the transform, and not only the function in it: jax.jit({transform}(…)), made once and outside of any loop. "
    "Each call then runs one compiled program.",
    instead="{written}",
    changes="rounding",
)
_TRANSFORMS = {"vmap", "grad", "value_and_grad", "jvp", "jacfwd", "jacrev", "hessian"}


def outermost_jitted(trace: Trace, row: Finding, transform: str) -> list[Remedy]:
    """What to do: with code where the line calls one thing that the loop around it leaves as it is."""
    place = row.location
    block = block_around(trace.blocks, place) if place is not None else None
    written = _above_the_loop(block, place.line) if block is not None and place is not None else None
    names = {"transform": transform, "written": written.code if written is not None else ""}
    where = Place(written.location, lines=written.lines) if written is not None else NOWHERE
    return remedies(_OUTERMOST, Case(f"jax.outermost:{row.text.partition(' ')[0]}", names, where))


def _above_the_loop(block: Block, line: int) -> Written | None:
    around = [*block.within(line)]
    loop = next((each for each in around if isinstance(each, Loop)), None)
    if loop is None or (called := _called(around[-1])) is None:
        return None
    by = jit_called("jax.jit", read(block.tree))
    changed = assigned([loop])
    is_local = block.tree is loop or root(called) in {name for each in ast.walk(block.tree) for name in bindings(each)}
    if by is None or read(called) & changed or not is_local:
        return None
    jit, imported = by
    indent = " " * (loop.col_offset - block.tree.col_offset)
    last, name = loop.lineno, called.id if isinstance(called, ast.Name) else ""
    lines = [block.lines[loop.lineno - block.first]]
    if not name:
        name, last = "transformed", around[-1].end_lineno or line
        if name in read(block.tree):
            return None
        lines = block.replaced(called, name, loop.lineno, last) or []
    made = [*imported, f"{name} = {jit}({block.text(called)})"]
    return block.written(loop.lineno, last, [*(indent + each for each in made), *lines], "") if lines else None


def _called(statement: ast.stmt) -> ast.Name | ast.Call | None:
    """What a statement calls first: a name that is given arguments, or what a transform's call returns."""
    for call in ast.walk(statement):
        match call:
            case ast.Call(func=ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)) as made):
                if name in _TRANSFORMS:
                    return made
    calls = [each.func for each in ast.walk(statement) if isinstance(each, ast.Call)]
    return next((each for each in calls if isinstance(each, ast.Name)), None)
