"""Finds statements of the user's: the `with` around a line, the assignment before it, the update of a setting."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable, Iterator
from functools import lru_cache

_GO_ON = (")", "]", "}", "else", "elif", "except", "finally", "#")
"""What stands as far left as an outermost statement, and begins none."""


def with_around(file: str, line: int, wanted: str) -> int | None:
    """The line of the innermost `with` around a line, where that enters `wanted`, and nothing else."""
    around = [
        node for node in _nodes(file, lambda node: isinstance(node, ast.With)) if _first(node) <= line <= _last(node)
    ]
    innermost = max(around, key=_first, default=None)
    if not isinstance(innermost, ast.With) or len(innermost.items) != 1:
        return None
    entered = ast.unparse(innermost.items[0].context_expr)
    return innermost.lineno if f".{entered}".endswith(f".{wanted}()") else None


def assigned_before(file: str, line: int, name: str) -> int | None:
    """The line of the last assignment to a name or attribute that stands before a line."""

    def assigns(node: ast.AST) -> bool:
        return isinstance(node, ast.Assign) and [*map(ast.unparse, node.targets)] == [name]

    return max((_first(node) for node in _nodes(file, assigns) if _last(node) < line), default=None)


def the_update(file: str, name: str) -> int | None:
    """The line of the only statement that does nothing but switch something on, by `update(name, …)`."""

    def updates(node: ast.AST) -> bool:
        match node:
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr="update"), args=[ast.Constant(value=given), value])):
                return bool(given == name) and not (isinstance(value, ast.Constant) and not value.value)
        return False

    lines = [_first(node) for node in _nodes(file, updates)]
    return lines[0] if len(lines) == 1 else None


def _nodes(file: str, wanted: Callable[[ast.AST], bool]) -> list[ast.stmt]:
    return [node for node in _statements(file) if wanted(node)]


@lru_cache(maxsize=16)
def _statements(file: str) -> tuple[ast.stmt, ...]:
    return tuple(node for node in walked(file) if isinstance(node, ast.stmt))


def walked(file: str, within: range | None = None) -> Iterator[ast.AST]:
    """All nodes of a file's tree, or of the lines `within` it, where these can be parsed alone; none of a file that
    cannot be parsed."""
    lines = linecache.getlines(file)
    if within is not None:
        lines = ["\n"] * (within.start - 1) + lines[within.start - 1 : within.stop - 1]
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return walked(file) if within is not None else iter(())
    return ast.walk(tree)


def statement_around(file: str, line: int) -> range:
    """The lines of the outermost statement that a line is in, as their indentation has it."""
    lines = linecache.getlines(file)
    first = next((at for at in range(min(line, len(lines)), 0, -1) if _is_head(lines[at - 1])), 1)
    return range(first, next((at for at in range(line + 1, len(lines) + 1) if _is_head(lines[at - 1])), len(lines) + 1))


def _is_head(text: str) -> bool:
    return not text[0].isspace() and not text.startswith(_GO_ON)


def _first(node: ast.stmt) -> int:
    return node.lineno


def _last(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno
