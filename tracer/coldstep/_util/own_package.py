"""Says which installed package a process runs: such a package's files are the user's, as those of a script are."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterator
from functools import lru_cache
from types import FunctionType, ModuleType

from coldstep._util.expressions import expression
from coldstep.vocabulary import PACKAGES

_LAUNCHER_BYTES = 4096  # of a script that does no more than call what it imports
_users: set[str] = set()  # packages that were seen to have imported a framework, or something of one
# Python: "def train(batch):"
_MAKES = expression(r"^\s*(?:async\s+)?(?:def|class|for|while)\s[^\n]*:", re.MULTILINE)
"""A line that no launcher has: such a script is not parsed."""
_OWN_CODE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.For, ast.While, ast.NamedExpr)


def is_own(file: str) -> bool:
    """Whether an installed file is of the package that was given to `python -m`, or that an entry point's script calls,
    or another script that is no longer.

    A package that uses no framework itself, such as a server or a test runner, is none: it runs the user's code.
    """
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None and file == spec.origin and any(map(_is_of_a_framework, list(vars(main).values()))):
        return True
    modules = _launched_by(str(getattr(main, "__file__", None) or "")) if spec is None else (spec.name,)
    return any(_has(package, file) and _uses_a_framework(package) for package in map(_package, modules))


def _package(module: str) -> str:
    """The name of a module's outermost package, mere namespaces aside."""
    parts = module.split(".")
    names = [".".join(parts[: end + 1]) for end in range(len(parts))]
    return next((name for name in names if getattr(sys.modules.get(name), "__file__", None)), parts[0])


def _has(package: str, file: str) -> bool:
    """Whether a file is of a package."""
    module = sys.modules.get(package)
    folders = (os.path.join(folder, "") for folder in getattr(module, "__path__", ()))
    return file.startswith(tuple(folders)) or file == getattr(module, "__file__", None)


def _uses_a_framework(package: str) -> bool:
    """Whether a package that is no framework has imported one, or something of one."""
    if package.partition(".")[0] in PACKAGES:
        return False
    if package not in _users:  # a look at thousands of modules, for each file of a package that is being imported
        below = f"{package}."
        # a copy: a list of pairs may have garbage collected within it, and other threads import meanwhile
        modules = [module for name, module in sys.modules.copy().items() if name == package or name.startswith(below)]
        if any(_is_of_a_framework(value) for module in modules for value in list(vars(module).values())):
            _users.add(package)
    return package in _users


def _is_of_a_framework(value: object) -> bool:
    if type(value) is ModuleType:
        return value.__name__.partition(".")[0] in PACKAGES
    return isinstance(value, (FunctionType, type)) and str(value.__module__).partition(".")[0] in PACKAGES


@lru_cache(maxsize=16)
def _launched_by(script: str) -> frozenset[str]:
    """The modules whose functions a script calls that has no code of its own; of any other script, none."""
    try:
        with open(script, encoding="utf-8") as file:
            text = file.read(_LAUNCHER_BYTES + 1)
        # on Python 3.11 two threads that parse at once break each other: a SystemError, here or in the program's own
        body = ast.parse(text) if len(text) <= _LAUNCHER_BYTES and _MAKES.search(text) is None else None
    except (OSError, ValueError, SyntaxError, RecursionError, SystemError):
        return frozenset()
    if body is None or any(map(_is_own_code, nodes := [*ast.walk(body)])):
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
