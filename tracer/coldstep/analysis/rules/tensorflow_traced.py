"""Puts `tf.function` above a training step that runs operation by operation, where its statements do nothing but
compute; else the line that keeps it from that."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from coldstep.analysis.remedies.blocks import Block, Loop, Written, read
from coldstep.analysis.remedies.jitted import computes, is_plain

_UPDATES = {"apply_gradients", "apply", "assign", "assign_add", "assign_sub", "update_state"}
"""Methods that change variables, which a graph does, too."""


def traced(block: Block) -> Written | None:
    """The head of the function with `@tf.function` above it; None of one that is decorated, or may not be traced."""
    function = block.tree
    if not isinstance(function, ast.FunctionDef) or function.decorator_list or hindrance(block) is not None:
        return None
    module = next((name for name in ("tf", "tensorflow") if name in read(function)), None)
    if module is None:
        return None
    return block.written(block.first, block.first, [f"@{module}.function", block.lines[0]], function.name)


def hindrance(block: Block) -> ast.stmt | None:
    """The first statement of a function that may not be traced as it is; None of a function without one."""
    return next(_hindrances(block.tree.body), None) if isinstance(block.tree, ast.FunctionDef) else None


def is_in_loop(block: Block, line: int) -> bool:
    """Whether a line stands in a loop, so that the block is more than one step."""
    return any(isinstance(each, Loop) for each in block.within(line))


def _hindrances(statements: list[ast.stmt]) -> Iterator[ast.stmt]:
    for each in statements:
        match each:
            case ast.With(items=items, body=body) if all(map(_is_tape, items)):
                yield from _hindrances(body)
            case (
                ast.For(body=body, orelse=other) | ast.While(body=body, orelse=other) | ast.If(body=body, orelse=other)
            ):
                yield from _hindrances([*body, *other])
                yield each
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr=method)) as call) if method in _UPDATES:
                if not is_plain(call, set()):
                    yield each
            case _ if isinstance(each, ast.FunctionDef) or not computes(each, set()):
                yield each


def _is_tape(item: ast.withitem) -> bool:
    """Whether it is `tf.GradientTape() as tape`."""
    match item.context_expr:
        case ast.Call(func=ast.Attribute(attr="GradientTape") | ast.Name(id="GradientTape")):
            return True
    return False
