"""Makes every call of a named function a step (`coldstep run --step module:function`). Standard library only.

A function of an imported module is wrapped as the module's import ends, one of the script itself behind the last
statement that binds its name: what a compiler is given before that is the function as the user wrote it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import wraps
from types import FunctionType
from typing import Any

from coldstep.session import step

_wanted: dict[str, dict[str, Callable[..., Any] | None]] = {}
"""Per module: the names of the functions to wrap, and what they were wrapped in, once they were."""


def want(module: str, function: str) -> None:
    """Ask that `function` of `module` become a step."""
    _wanted.setdefault(module, {})[function] = None


def wanted(module: str) -> list[str]:
    """The functions asked for in `module`."""
    return list(_wanted.get(module, ()))


def asked() -> Iterator[tuple[str, str, bool]]:
    """Every (module, function) asked for, and whether it was found."""
    for module, names in _wanted.items():
        for name, marked in names.items():
            yield module, name, marked is not None


def mark(namespace: dict[str, Any]) -> None:
    """Wrap what is wanted of the module whose globals these are."""
    names = _wanted.get(namespace["__name__"], {})
    for name, marked in names.items():
        found = namespace.get(name)
        if callable(found) and not isinstance(found, type) and found is not marked:
            namespace[name] = names[name] = _marked(found, name)


def compile_marked(source: bytes | str, file: str, names: list[str]) -> Any:
    """The code of a script with `mark(globals())` behind the last binding of each of `names`; no line moves."""
    tree = ast.parse(source, file)
    for name in names:
        _insert(tree.body, name)
    return compile(tree, file, "exec", dont_inherit=True)


def _marked(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    if not isinstance(function, FunctionType):
        return _Callable(function, name)

    @wraps(function)
    def marked(*args: Any, **kwargs: Any) -> Any:
        with step(name):
            return function(*args, **kwargs)

    return marked


class _Callable:
    """A callable that is no plain function (a jitted one has methods of its own), each call of which is a step."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self._coldstep = function, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        function, name = self._coldstep
        with step(name):
            return function(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._coldstep[0], name)


def _insert(body: list[ast.stmt], name: str) -> None:
    """Put the call behind the last statement of `body` that binds `name`, and behind the last one inside that."""
    last = max((index for index, statement in enumerate(body) if _binds(statement, name)), default=None)
    if last is None:
        return
    statement = body[last]
    call = ast.parse("__import__('coldstep_viewers.marking', fromlist=['mark']).mark(globals())").body[0]
    for node in ast.walk(call):
        if isinstance(node, (ast.expr, ast.stmt)):
            node.lineno = node.end_lineno = statement.end_lineno or statement.lineno
            node.col_offset = node.end_col_offset = 0
    body.insert(last + 1, call)
    for inner in _bodies(statement):
        _insert(inner, name)


def _binds(statement: ast.stmt, name: str) -> bool:
    """Whether running `statement` at the top of a module may bind `name`."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
        return statement.name == name
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return any((alias.asname or alias.name.partition(".")[0]) in (name, "*") for alias in statement.names)
    if isinstance(statement, (ast.Assign, ast.AnnAssign)):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        return any(isinstance(node, ast.Name) and node.id == name for target in targets for node in ast.walk(target))
    return any(_binds(inner, name) for body in _bodies(statement) for inner in body)


def _bodies(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The blocks inside a compound statement that run in the module's own scope."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
        return
    for field in ("body", "orelse", "finalbody"):
        if block := getattr(statement, field, None):
            yield block
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield part.body
