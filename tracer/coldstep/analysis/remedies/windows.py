"""A slice that begins at an array's value, which JAX cannot trace, written with `dynamic_slice_in_dim`."""

from __future__ import annotations

import ast

from coldstep.analysis.remedies.blocks import Block, Written, assigned, read

_SLICE = "dynamic_slice_in_dim"


def with_dynamic_slice(block: Block, line: int) -> Written | None:
    """The statement of that line with its one slice `x[start : start + n]` as a call; None where it has another, or
    where the length is the function's own: it may be an array's value, too."""
    function, statement = block.tree, [*block.within(line)][-1]
    if not isinstance(function, ast.FunctionDef) or not isinstance(statement, ast.Assign | ast.Return | ast.Expr):
        return None
    slices = [each for each in ast.walk(statement) if isinstance(each, ast.Slice) and each.lower is not None]
    taken = [each for each in ast.walk(statement) if isinstance(each, ast.Subscript) and _along(each) is not None]
    if len(slices) != 1 or len(taken) != 1 or _SLICE in read(function):
        return None
    own = assigned([function.args, *function.body])
    match taken[0], slices[0]:
        case (
            ast.Subscript(value=ast.Name(id=array), ctx=ast.Load()),
            ast.Slice(lower=ast.expr() as start, upper=ast.BinOp(left=left, op=ast.Add(), right=length), step=None),
        ) if ast.dump(left) == ast.dump(start) and not read(length) & own and not _calls(start, length):
            along = _along(taken[0])
            given = ", ".join([array, block.text(start), block.text(length), *([f"axis={along}"] if along else [])])
            last = statement.end_lineno or line
            lines = block.replaced(taken[0], f"{_SLICE}({given})", statement.lineno, last)
            head = f"{' ' * statement.col_offset}from jax.lax import {_SLICE}"
            return block.written(statement.lineno, last, [head, *lines], function.name) if lines else None
    return None


def _along(node: ast.Subscript) -> int | None:
    """The dimension that the slice is of, where all others are whole; None where it is of none."""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if not all(isinstance(each, ast.Slice) for each in parts):
        return None
    bounded = [at for at, each in enumerate(parts) if ast.unparse(each) != ":"]
    return bounded[0] if len(bounded) == 1 else None


def _calls(*nodes: ast.expr) -> bool:
    return any(isinstance(each, ast.Call) for node in nodes for each in ast.walk(node))
