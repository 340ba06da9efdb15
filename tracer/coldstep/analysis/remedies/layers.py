"""A Python loop over the layers of a JAX program, written as `jax.lax.scan` over what they read, stacked: where all of
them are arrays of the same types."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Mapping

from coldstep.analysis.remedies.blocks import Block, Written, assigned, bindings, read
from coldstep.analysis.remedies.loops import (
    assigns,
    before,
    body_of,
    handed_on,
    is_computed,
    loop_at,
    read_outside,
    seen_from_within,
)  # fmt: skip

_TURN, _SCAN, _STACK, _LAYER = "turn", "scan", "stack", "of_layer"
_NAMES = {_TURN, _SCAN, _STACK, _LAYER, "tree"}


def as_scan(block: Block, line: int, inputs: Mapping[str, str]) -> Written | None:
    """The lines of the loop that begins in that line, written anew; None where that may not be the same. `inputs`: the
    types of the program's arguments, by path: "params[3]['w']"."""
    function, loop = block.tree, loop_at(block, line)
    if not isinstance(function, ast.FunctionDef) or loop is None or loop.orelse:
        return None
    if not all(map(assigns, loop.body)) or not all(map(is_computed, loop.body)) or not _are_alike(loop.iter, inputs):
        return None
    given = {each.id for each in ast.walk(loop.target) if isinstance(each, ast.Name)}
    carried = handed_on(function, loop)
    names = {name for node in ast.walk(function) for name in (*bindings(node), *read(node))}
    if len(carried) != 1 or not {*carried} <= before(function, loop) or names & _NAMES:
        return None
    made = assigned(loop.body)
    if given & (read_outside(function, loop) | made) or made & seen_from_within(function, loop):
        return None
    return _written(block, loop, carried[0])


def _are_alike(over: ast.expr, inputs: Mapping[str, str]) -> bool:
    """Whether the loop goes over one argument of the program whose parts are of the same types."""
    if not isinstance(over, ast.Name | ast.Subscript):
        return False
    path = ast.unparse(over)
    parts: dict[str, dict[str, str]] = defaultdict(dict)
    for argument, type_ in inputs.items():
        if argument.startswith(f"{path}["):
            number, _, rest = argument.removeprefix(f"{path}[").partition("]")
            parts[number][rest] = type_
    kinds = [*parts.values()]
    numbered = all(number.isdecimal() for number in parts)
    return len(kinds) > 1 and numbered and all(each == kinds[0] for each in kinds)


def _written(block: Block, loop: ast.For, name: str) -> Written | None:
    if (kept := body_of(block, loop)) is None:
        return None
    outer, inner = " " * loop.col_offset, " " * loop.body[0].col_offset
    over, target = block.text(loop.iter), block.text(loop.target)
    lines = [
        f"{outer}from jax import tree",
        f"{outer}from jax.lax import {_SCAN}",
        f"{outer}from jax.numpy import {_STACK}",
        "",
        f"{outer}def {_TURN}({name}, {target if target.isidentifier() else _LAYER}):",
        *([] if target.isidentifier() else [f"{inner}{target} = {_LAYER}"]),
        *kept,
        f"{inner}return {name}, None",
        "",
        f"{outer}{name}, _ = {_SCAN}({_TURN}, {name}, tree.map(lambda *each: {_STACK}(each), *{over}))",
    ]
    return block.written(loop.lineno, loop.end_lineno or loop.lineno, lines, "")
