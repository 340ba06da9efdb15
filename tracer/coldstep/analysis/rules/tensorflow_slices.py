"""A `tf.slice` that begins at a value which XLA has to know, written as one whose begin XLA takes as it runs."""

from __future__ import annotations

import ast

from coldstep.analysis.remedies.blocks import Block, Written, bindings, read

_SLICES = ("tf.slice", "tensorflow.slice")
_IMPORT = "from tensorflow.compiler.tf2xla.python import xla"


def with_dynamic_slice(block: Block, argument: str) -> Written | None:
    """The statement with the function's one slice that begins at an argument; None where there is no such one."""
    function = block.tree
    if not isinstance(function, ast.FunctionDef) or argument not in {each.arg for each in function.args.args}:
        return None
    names = {name for node in ast.walk(function) for name in (*bindings(node), *read(node))}
    calls = [each for each in ast.walk(function) if isinstance(each, ast.Call) and argument in read(each)]
    slices = [each for each in calls if ast.unparse(each.func) in _SLICES and _begins_at(each, argument)]
    if len(slices) != 1 or "xla" in names:
        return None
    call, statement = slices[0], [*block.within(slices[0].lineno)][-1]
    last = statement.end_lineno or statement.lineno
    text = f"xla.dynamic_slice({', '.join(map(block.text, call.args))})"
    lines = block.replaced(call, text, statement.lineno, last)
    first = block.lines[statement.lineno - block.first].encode()[: statement.col_offset]
    if lines is None or first.strip() or not isinstance(statement, ast.Assign | ast.Return | ast.Expr):
        return None
    return block.written(statement.lineno, last, [f"{' ' * statement.col_offset}{_IMPORT}", *lines], function.name)


def _begins_at(call: ast.Call, argument: str) -> bool:
    """Whether only where the slice begins depends on the argument; a size of -1 stands for all the rest."""
    match call:
        case ast.Call(args=[value, begin, size], keywords=[]):
            rest = any(isinstance(each, ast.USub) for each in ast.walk(size))
            return argument in read(begin) and argument not in read(value) | read(size) and not rest
    return False
