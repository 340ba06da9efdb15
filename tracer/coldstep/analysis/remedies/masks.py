"""Entries that a boolean mask picks, which JAX cannot trace, written with `where`: the array keeps its size."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from coldstep.analysis.remedies.blocks import Block, Written, bindings, read, root

_MODULES = {"jnp", "jax"}
_BY_ENTRY = {
    "abs", "isnan", "isfinite", "isinf", "square", "sqrt", "exp", "log", "sign", "negative", "logical_not", "absolute",
    "sin", "cos", "tanh", "log1p", "expm1",
}  # fmt: skip
"""Functions of jax.numpy whose result has an entry for each of the argument's."""
_UPDATES = {"set": "{new}", "add": "{old} + {new}", "subtract": "{old} - {new}", "multiply": "{old} * {new}"}
"""By the method of `x.at[mask]`, what it makes of the entries."""
_WHERE = {"sum", "mean", "prod", "any", "all", "std", "var"}
"""What takes the mask itself."""
_OPERATORS = (ast.Add, ast.Sub, ast.Mult)


def with_where(block: Block, line: int) -> Written | None:
    """The statement of that line, and the one after it where that uses what it picks, without picking; None where it is
    not clear that the mask is as large as the array."""
    function, statement = block.tree, [*block.within(line)][-1]
    if not isinstance(function, ast.FunctionDef) or not isinstance(statement, ast.Assign | ast.Return | ast.Expr):
        return None
    picks = [each for each in ast.walk(statement) if isinstance(each, ast.Subscript) and _picks(function, each)]
    if len(picks) != 1:
        return None
    if (made := _update(function, statement, picks[0]) or _reduction(statement, picks[0])) is None:
        return None
    last, replaced, text = made
    if replaced is None:
        indent = " " * statement.col_offset
        return block.written(statement.lineno, last, [f"{indent}{text}"], function.name)
    lines = block.replaced(replaced, text, statement.lineno, last)
    return block.written(statement.lineno, last, lines, function.name) if lines is not None else None


_Made = tuple[int, ast.expr | None, str]
"""The last line that is replaced; the expression, or None of a whole statement; and what stands there then."""


# --- the mask ---------------------------------------------------------------------------------------------------------


def _picks(function: ast.FunctionDef, node: ast.Subscript) -> bool:
    """Whether `x[mask]` is read, of a name, by a mask that has an entry for each of its."""
    array = node.value
    return isinstance(array, ast.Name) and isinstance(node.ctx, ast.Load) and _is_mask(function, node.slice, array.id)


def _is_mask(function: ast.FunctionDef, mask: ast.expr, array: str) -> bool:
    match mask:
        case ast.Name(id=name):
            values = [each.value for each in ast.walk(function) if isinstance(each, ast.Assign) and _gives(each, name)]
            bound = sum(name in bindings(each) for each in ast.walk(function))
            stays = sum(array in bindings(each) for each in ast.walk(function)) == 1
            return len(values) == bound == 1 and stays and _is_mask(function, values[0], array)
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return _is_mask(function, operand, array)
        case ast.BinOp(op=ast.BitAnd() | ast.BitOr(), left=left, right=right):
            return _is_mask(function, left, array) and _is_mask(function, right, array)
        case ast.Compare(left=left, comparators=[right]):
            return _has_entries_of(left, array) or _has_entries_of(right, array)
        case ast.Call(func=ast.Attribute(attr="isnan" | "isfinite" | "isinf")):
            return _has_entries_of(mask, array)
    return False


def _gives(node: ast.Assign, name: str) -> bool:
    return [*map(ast.unparse, node.targets)] == [name]


def _has_entries_of(node: ast.expr, array: str) -> bool:
    """Whether an expression has an entry for each of the array's."""
    match node:
        case ast.Name(id=name):
            return name == array
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _has_entries_of(operand, array)
        case ast.BinOp(op=operator, left=left, right=right) if isinstance(operator, _OPERATORS):
            return _has_entries_of(left, array) or _has_entries_of(right, array)
        case ast.Call(func=ast.Attribute(attr=name) as called, args=[argument], keywords=[]):
            return root(called) in _MODULES and name in _BY_ENTRY and _has_entries_of(argument, array)
    return False


# --- what is done with the entries ------------------------------------------------------------------------------------


def _update(function: ast.FunctionDef, statement: ast.stmt, pick: ast.Subscript) -> _Made | None:
    """`x = x.at[mask].add(f(x[mask]))`, or what is picked given a name in the line before."""
    array, mask = ast.unparse(pick.value), ast.unparse(pick.slice)
    names = read(function)
    module = "jnp" if "jnp" in names else "jax.numpy"
    if not names & {"jnp", "jax"}:
        return None
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is pick:
            following = _after(function, statement)
            reads = [each for each in ast.walk(function) if isinstance(each, ast.Name) and each.id == name]
            used = [*ast.walk(following)] if following is not None else []
            if following is None or sum(each in used for each in reads) != len(reads) - 1 or name == array:
                return None
            text = _updated(following, array, mask, name, module)
            return (following.end_lineno or following.lineno, None, text) if text else None
    text = _updated(statement, array, mask, ast.unparse(pick), module)
    return (statement.end_lineno or statement.lineno, None, text) if text else None


def _updated(statement: ast.stmt, array: str, mask: str, picked: str, module: str) -> str:
    """The update as a `where`; "" where the statement is none, or computes the new entries of more than the old."""
    match statement:
        case ast.Assign(
            targets=[ast.Name() as target],
            value=ast.Call(
                func=ast.Attribute(
                    attr=method,
                    value=ast.Subscript(value=ast.Attribute(attr="at", value=ast.Name(id=updated)), slice=where),
                ),
                args=[new],
                keywords=[],
            ),
        ) if updated == array and ast.unparse(where) == mask and method in _UPDATES and _is_arithmetic(new, picked):
            whole = _with_array(new, picked, array)
            made = _UPDATES[method].format(old=array, new=whole if method == "set" else f"({whole})")
            return f"{target.id} = {module}.where({mask}, {made}, {array})"
    return ""


def _is_arithmetic(node: ast.expr, picked: str) -> bool:
    """Whether an expression computes each entry from that which was picked, and numbers."""
    if ast.unparse(node) == picked:
        return True
    match node:
        case ast.Constant(value=int() | float()):
            return True
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _is_arithmetic(operand, picked)
        case ast.BinOp(op=operator, left=left, right=right) if isinstance(operator, _OPERATORS):
            return _is_arithmetic(left, picked) and _is_arithmetic(right, picked)
    return False


def _with_array(node: ast.expr, picked: str, array: str) -> str:
    class Whole(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            if isinstance(node, ast.expr) and ast.unparse(node) == picked:
                return ast.Name(array, ast.Load())
            return self.generic_visit(node)

    return ast.unparse(Whole().visit(ast.parse(ast.unparse(node), mode="eval")))


def _reduction(statement: ast.stmt, pick: ast.Subscript) -> _Made | None:
    """`jnp.mean(x[mask] * 2)` or `x[mask].mean()`: as `jnp.mean(x * 2, where=mask)`."""
    last, array, mask = statement.end_lineno or statement.lineno, ast.unparse(pick.value), ast.unparse(pick.slice)
    for each in ast.walk(statement):
        match each:
            case ast.Call(func=ast.Attribute(attr=name) as called, args=[given], keywords=[]) if name in _WHERE:
                if root(called) in _MODULES and _is_by_entry(given, pick):
                    whole = _with_array(given, ast.unparse(pick), array)
                    return last, each, f"{ast.unparse(called)}({whole}, where={mask})"
            case ast.Call(func=ast.Attribute(attr=name, value=owner), args=[], keywords=[]) if owner is pick:
                if name in _WHERE:
                    return last, each, f"{array}.{name}(where={mask})"
    return None


def _is_by_entry(node: ast.expr, pick: ast.expr) -> bool:
    """Whether an expression computes each entry from one that was picked."""
    match node:
        case ast.Call(func=ast.Attribute(attr=name) as called, args=[argument], keywords=[]):
            return root(called) in _MODULES and name in _BY_ENTRY and _is_by_entry(argument, pick)
        case ast.BinOp(op=ast.Pow(), left=left, right=ast.Constant()):
            return _is_by_entry(left, pick)
    return pick in [*ast.walk(node)] and _is_arithmetic(node, ast.unparse(pick))


def _after(function: ast.FunctionDef, statement: ast.stmt) -> ast.stmt | None:
    """The statement right after one, in the same block."""
    for body in _bodies(function):
        if statement in body[:-1]:
            return body[body.index(statement) + 1]
    return None


def _bodies(function: ast.FunctionDef) -> Iterator[list[ast.stmt]]:
    for each in ast.walk(function):
        for name in ("body", "orelse"):
            if isinstance(body := getattr(each, name, None), list):
                yield body
