"""Gives a function of JAX operations that run one by one to `jax.jit`, or to that of Flax or Equinox: where its
statements do nothing but compute."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection

from coldstep.analysis.remedies.blocks import Block, Written, bindings, read, root

_EFFECTS = {"item", "numpy", "tolist", "block_until_ready", "print", "callback", "write", "pop", "append", "device_get"}
_HOSTS = {"np", "numpy", "time", "os", "math", "random"}
"""Modules that take no traced array, or give something else in each call."""
_PLAIN_BUILTINS = {"abs", "len", "sum", "tuple", "list", "dict", "zip"}
_SIZED_BY_VALUES = {"nonzero", "flatnonzero", "argwhere", "unique", "compress", "extract", "intersect1d", "setdiff1d"}
_BRANCHES = (
    ast.IfExp, ast.BoolOp, ast.Not, ast.In, ast.NotIn, ast.Is, ast.IsNot, ast.JoinedStr, ast.NamedExpr, ast.Await,
    ast.Yield, ast.YieldFrom, ast.comprehension,
)  # fmt: skip
"""What asks for an array's value, as a rule, or runs it more than once."""
_JITS = {"jax": ("jax",), "flax.nnx": ("nnx",), "equinox": ("eqx", "equinox")}
"""What has a function that jits, and how programs call it."""


def jitted(block: Block, by: str = "jax.jit") -> Written | None:
    """The head of the function with `by` above it; None of a method, of a decorated function, and where it may do more
    than to compute."""
    function = block.tree
    if not isinstance(function, ast.FunctionDef) or block.indent or function.decorator_list:
        return None
    defined = {each.name for each in function.body if isinstance(each, ast.FunctionDef)}
    changed = {each.arg for each in function.args.args} if by == "flax.nnx.jit" else set[str]()
    if not all(computes(each, defined) or _updates(each, changed) for each in function.body):
        return None
    if _sized_by_values(function):
        return None
    names = {name for node in ast.walk(function) for name in (*bindings(node), *read(node))}
    if (called := jit_called(by, names)) is None:
        return None
    jit, imported = called
    lines = [*(line for each in imported for line in (each, "")), f"@{jit}", block.lines[0]]
    return block.written(block.first, block.first, lines, function.name)


def _sized_by_values(function: ast.FunctionDef) -> bool:
    """Whether a size in it follows from an array's values: of a boolean mask, a slice, `nonzero()`."""
    bound = {name for node in ast.walk(function) for name in bindings(node)}
    given = [pair for node in ast.walk(function) if isinstance(node, ast.Assign) for pair in _pairs(node)]
    masks = {name for name in bound if "mask" in name or "valid" in name}
    masks |= {target.id for target, value in given if isinstance(target, ast.Name) and _is_mask(value, masks)}
    for node in ast.walk(function):
        match node:
            case ast.Subscript(value=ast.Attribute(attr="at")):  # x.at[mask].set(…) keeps the size of x
                pass
            case ast.Subscript(slice=index) if any(_is_mask(part, masks) for part in _parts(index)):
                return True
            case ast.Slice() if any("." not in ast.unparse(each) and read(each) & bound for each in _ends(node)):
                return True
            case ast.Call(func=ast.Attribute(attr=name)) if not any(key.arg == "size" for key in node.keywords):
                if name in _SIZED_BY_VALUES or (name == "where" and len(node.args) == 1):
                    return True
    return False


def _pairs(node: ast.Assign) -> list[tuple[ast.expr, ast.expr]]:
    """What is assigned to what, one by one."""
    targets, values = _parts(node.targets[0]), _parts(node.value)
    return list(zip(targets, values, strict=False)) if len(targets) == len(values) else []


def _ends(node: ast.Slice) -> list[ast.expr]:
    return [each for each in (node.lower, node.upper, node.step) if each is not None]


def _is_mask(value: ast.expr, masks: Collection[str]) -> bool:
    """Whether an expression is of truth values, as far as its own words show."""
    match value:
        case ast.Name(id=name):
            return name in masks
        case ast.Compare() | ast.UnaryOp(op=ast.Invert()):
            return True
        case ast.BinOp(op=ast.BitAnd() | ast.BitOr(), left=left, right=right):
            return _is_mask(left, masks) or _is_mask(right, masks)
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in ("isnan", "isfinite", "isinf") or name.startswith("logical_")
    return False


def jit_called(by: str, names: Collection[str]) -> tuple[str, list[str]] | None:
    """How code that reads these names calls `by`, "nnx.jit" or "jit", and the line that imports it, where it has to;
    None where `by` is not known, or another thing has that name."""
    module, _, name = by.rpartition(".")
    if module not in _JITS or name in names:
        return None
    package = next((each for each in _JITS[module] if each in names), None)
    return (f"{package}.{name}", []) if package is not None else (name, [f"from {module} import {name}"])


def _updates(statement: ast.stmt, changed: set[str]) -> bool:
    """Whether it changes an argument in place, as an optimizer of Flax' does, which `nnx.jit` hands back."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="update")) as call):
            return name in changed and is_plain(call, set())
    return False


def made_anew(block: Block, line: int) -> str:
    """The function that the calls of a line are given, and that the function of the block defines; "" of none."""
    function = block.tree
    if not isinstance(function, ast.FunctionDef):
        return ""
    defined = {each.name for each in ast.walk(function) if isinstance(each, ast.FunctionDef)} - {function.name}
    for call in (each for each in ast.walk(function) if isinstance(each, ast.Call) and each.lineno == line):
        for given in (*call.args, *(keyword.value for keyword in call.keywords)):
            if isinstance(given, ast.Lambda):
                return "a lambda"
            if isinstance(given, ast.Name) and given.id in defined:
                return given.id
    return ""


def computes(statement: ast.stmt, defined: set[str]) -> bool:
    """Whether a statement may be traced: it assigns names, returns, or defines a function that is handed over."""
    match statement:
        case ast.FunctionDef():
            return not any(isinstance(each, ast.Global | ast.Nonlocal) for each in ast.walk(statement))
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Return(value=value):
            return value is None or (is_plain(value, defined) and not any(map(_is_text, _parts(value))))
        case ast.AugAssign(target=ast.Name(), value=value):
            return is_plain(value, defined)
        case ast.Assign(targets=[ast.Name() | ast.Tuple() as target], value=value):
            return all(isinstance(each, ast.Name) for each in _parts(target)) and is_plain(value, defined)
    return False


def _parts(value: ast.expr) -> list[ast.expr]:
    """What a function returns, or assigns, its parts one by one: of a dict its values."""
    if isinstance(value, ast.Tuple | ast.List):
        return [part for each in value.elts for part in _parts(each)]
    return [part for each in value.values for part in _parts(each)] if isinstance(value, ast.Dict) else [value]


def _is_text(value: ast.expr) -> bool:
    """Whether it is a text, which no jitted function returns."""
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def is_plain(value: ast.expr, defined: set[str]) -> bool:
    """Whether an expression asks for no array's value, and has no effect that can be seen; `defined`: the functions
    within this one, of which a call runs statements that nobody looked at."""
    for each in ast.walk(value):
        if isinstance(each, _BRANCHES) or (isinstance(each, ast.Compare) and len(each.ops) > 1):
            return False
        if isinstance(each, ast.Call):
            name, callee = ast.unparse(each.func).rpartition(".")[2], root(each.func)
            if name in _EFFECTS or callee in _HOSTS or callee in defined:
                return False
            if hasattr(builtins, callee) and callee not in _PLAIN_BUILTINS:
                return False
    return True
