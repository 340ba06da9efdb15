"""Says which installed package a process runs: such a package's files are the user's, as those of a script are."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator
from functools import lru_cache

_LAUNCHER_BYTES = 4096  # of a script that does no more than call what it imports
_OWN_CODE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.For, ast.While, ast.NamedExpr)
_FRAMEWORKS = {"jax", "torch", "torch_xla", "tensorflow", "keras"}


def own_package() -> tuple[str, ...]:
    """Where the package lies that was given to `python -m`, or that an entry point's script calls, or another script
    that is no longer; nothing where the process runs a script of the user's."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return _folders(spec.name) or (str(spec.origin),)
    modules = _launched_by(str(getattr(main, "__file__", None) or ""))
    return tuple(folder for module in modules for folder in _folders(module))


def _folders(module: str) -> tuple[str, ...]:
    """The folders of a module's outermost package, mere namespaces aside; nothing of a framework's own."""
    parts = module.split(".")
    names = (".".join(parts[: end + 1]) for end in range(len(parts)))
    packages = (package for name in names if (package := sys.modules.get(name)) is not None)
    package = next((each for each in packages if getattr(each, "__file__", None)), None)
    if package is None or parts[0] in _FRAMEWORKS:
        return ()
    return tuple(os.path.join(folder, "") for folder in getattr(package, "__path__", ())) or (str(package.__file__),)


@lru_cache(maxsize=16)
def _launched_by(script: str) -> frozenset[str]:
    """The modules whose functions a script calls that has no code of its own; of any other script, none."""
    try:
        with open(script, encoding="utf-8") as file:
            text = file.read(_LAUNCHER_BYTES + 1)
        body = ast.parse(text) if len(text) <= _LAUNCHER_BYTES else None
    except (OSError, ValueError, SyntaxError, RecursionError):
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
