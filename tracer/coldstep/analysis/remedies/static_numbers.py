"""The decorator of a JAX function without a static number that the function only computes with."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from coldstep.analysis.remedies.blocks import Block, Written, read

_JIT = ("jax.jit", "jit")
_PARTIAL = ("partial", "functools.partial")
_STATIC = ("static_argnames", "static_argnums")
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div)
_COMPARISON = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_OF_ARRAYS = {"jnp", "jax.numpy", "tf", "tf.math"}
_ONE_BY_ONE = {"abs", "cos", "exp", "log", "sin", "sqrt", "square", "tanh"}
"""Functions of these modules that give for each number one of its own, traced or not."""
_NUMBERS = {"shape", "size", "ndim", "dtype"}
"""What of an array is known as it is traced."""


def without_static(block: Block, argument: str) -> Written | None:
    """The decorator's line written anew; None where the function may need the number, or has another decorator."""
    function = block.tree
    if not isinstance(function, ast.FunctionDef) or len(function.decorator_list) != 1:
        return None
    decorator = function.decorator_list[0]
    if not isinstance(decorator, ast.Call) or decorator.lineno != decorator.end_lineno:
        return None
    named = ast.unparse(decorator.func)
    jit = ast.unparse(decorator.args[0]) if named in _PARTIAL and len(decorator.args) == 1 else named
    parameters = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    names = parameters + [each.arg for each in function.args.kwonlyargs]
    static = {key.arg: _listed(key.value, parameters) for key in decorator.keywords if key.arg in _STATIC}
    held = [name for given in static.values() for name in given or ()]
    if jit not in _JIT or argument not in held or None in static.values() or not {*held} <= {*names}:
        return None
    if not only_computes(function, argument, {*names} - {*held}):
        return None
    rest = [ast.unparse(key) for key in decorator.keywords if key.arg not in _STATIC]
    if kept := [repr(name) for name in dict.fromkeys(held) if name != argument]:
        rest.append(f"static_argnames=({', '.join(kept)},)")
    made = f"@{jit}"
    if rest:
        made = f"@{named}({', '.join([jit, *rest] if named in _PARTIAL else rest)})"
    return block.written(decorator.lineno, decorator.lineno, [made], function.name)


def _listed(value: ast.expr, parameters: list[str]) -> list[str] | None:
    """The names that `static_argnames` or `static_argnums` gives; None where it is no literal of these."""
    each = value.elts if isinstance(value, ast.Tuple | ast.List) else [value]
    given = [node.value if isinstance(node, ast.Constant) else None for node in each]
    names = [parameters[one] if type(one) is int and 0 <= one < len(parameters) else one for one in given]
    return [name for name in names if isinstance(name, str)] if all(isinstance(name, str) for name in names) else None


def only_computes(function: ast.FunctionDef, argument: str, arrays: set[str]) -> bool:
    """Whether each use of an argument is an operand beside something of an array's."""
    made = {*arrays}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and _is_of(node.value, made):
            made |= {each.id for target in node.targets for each in ast.walk(target) if isinstance(each, ast.Name)}
    above = {child: node for node in ast.walk(function) for child in ast.iter_child_nodes(node)}
    uses = [node for node in ast.walk(function) if isinstance(node, ast.Name) and node.id == argument]
    return bool(uses) and all(any(_is_of(each, made) for each in operations(node, above)) for node in uses)


def operations(node: ast.expr, above: dict[ast.AST, ast.AST]) -> Iterator[ast.BinOp | ast.Compare]:
    """The arithmetic that a value is part of, from the innermost outwards, and the comparison around that."""
    at: ast.AST | None = above.get(node)
    while isinstance(at, ast.expr) and _is_one_by_one(at):
        if isinstance(at, ast.BinOp):
            yield at
        at = above.get(at)
    if isinstance(at, ast.Compare) and len(at.ops) == 1 and isinstance(at.ops[0], _COMPARISON):
        yield at


def _is_one_by_one(node: ast.expr) -> bool:
    """Whether it is `-n`, `n * x` or `tf.sqrt(n)`."""
    if not isinstance(node, ast.Call) or len(node.args) != 1 or node.keywords:
        return isinstance(node, ast.UnaryOp) or (isinstance(node, ast.BinOp) and isinstance(node.op, _ARITHMETIC))
    module, _, name = ast.unparse(node.func).rpartition(".")
    return module in _OF_ARRAYS and name in _ONE_BY_ONE


def _is_of(value: ast.expr, arrays: set[str]) -> bool:
    """Whether an expression reads an array, and not only what is known of one as it is traced."""
    known = any(isinstance(each, ast.Attribute) and each.attr in _NUMBERS for each in ast.walk(value))
    calls_len = any(isinstance(each, ast.Name) and each.id == "len" for each in ast.walk(value))
    return bool(read(value) & arrays) and not known and not calls_len
