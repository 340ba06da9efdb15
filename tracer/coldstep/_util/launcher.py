"""Reads which modules a short script calls that does nothing else, as those that pip makes for an entry point."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

_OWN_CODE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.For, ast.While, ast.NamedExpr)


def called_modules(text: str) -> frozenset[str]:
    """The modules, the standard library's aside, whose functions a script calls; none if it has code of its own."""
    try:
        # on Python 3.11 two threads that parse at once break each other: a SystemError, here or in the program's own
        nodes = [*ast.walk(ast.parse(text))]
    except (ValueError, SyntaxError, RecursionError, SystemError):
        return frozenset()
    if any(map(_is_own_code, nodes)):
        return frozenset()
    imported = dict(pair for node in nodes for pair in _imported(node))
    called = (_root(node.func) for node in nodes if isinstance(node, ast.Call))
    modules = {imported[name] for name in called if name in imported}
    return frozenset(each for each in modules if each.partition(".")[0] not in sys.stdlib_module_names)


def _is_own_code(node: ast.AST) -> bool:
    """Whether it makes something of the script's own: a function, a loop, a name for a value."""
    return isinstance(node, _OWN_CODE) or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))


def _imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    """The names that an import gives, with the module that each is from."""
    if isinstance(node, ast.Import):
        yield from ((each.asname or each.name.partition(".")[0], each.name) for each in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield from ((each.asname or each.name, node.module) for each in node.names)


def _root(node: ast.expr) -> str:
    """The first name of what is called: `tool` of `tool.cli.main`."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
