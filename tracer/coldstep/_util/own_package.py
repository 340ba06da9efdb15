"""Says which installed package a process runs: such a package's files are the user's, as those of a script are."""

from __future__ import annotations

import os
import re
import sys
from functools import lru_cache
from types import FunctionType, ModuleType

from coldstep._util.expressions import expression
from coldstep.vocabulary import PACKAGES

_LAUNCHER_BYTES = 4096  # of a script that does no more than call what it imports
_users: set[str] = set()  # packages that were seen to have imported a framework, or something of one
# Python: "def train(batch):"
_MAKES = expression(r"^\s*(?:async\s+)?(?:def|class|for|while)\s[^\n]*:", re.MULTILINE)
"""A line that no launcher has: such a script is not parsed."""


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
    except (OSError, ValueError):
        return frozenset()
    if len(text) > _LAUNCHER_BYTES or _MAKES.search(text) is not None:
        return frozenset()
    from coldstep._util.launcher import called_modules  # what parses takes milliseconds to import

    return called_modules(text)
