"""By what a function that is made anew could differ from the one before: where it does not, that one will do."""

from __future__ import annotations

from functools import lru_cache
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

from coldstep_collectors.support import SUPPORT
from coldstep_collectors.values import array_class, closure

_DEEPEST = 4  # functions that a function calls
_NUMBERS = (bool, int, float, complex)
_OFFER_FUNCTIONS = {"numpy", *(name for row in SUPPORT for name in row.classes)}


def known_by(layers: list[Any]) -> str | None:
    """Of a function within another: that one's name, and for each captured variable how two of its values differ,
    "train(lr:text,body:object)"; None where the earlier function may not do: it reads something that may be another by
    then. `layers`: the function, and what it wraps."""
    function = next((each for each in reversed(layers) if isinstance(each, FunctionType)), None)
    if function is None or "<locals>" not in function.__qualname__ or not _reads_what_stays(function, _DEEPEST):
        return None
    by = {name: _known(value) for name, value in closure(function)}
    if not all(by.values()):
        return None
    owner = function.__qualname__.rpartition(".<locals>.")[0].rpartition("<locals>.")[2]
    return f"{owner}({','.join(f'{name}:{how}' for name, how in by.items())})"


def _known(value: Any) -> str:
    """By its text, as the object that it is, by its id where it cannot be compared, by those of its members."""
    if value is None or type(value) in (*_NUMBERS, str, bytes):
        return "text"
    if isinstance(value, (type, ModuleType, BuiltinFunctionType)) or _stays(value, _DEEPEST):
        return "object"
    if array_class(value):
        return "id"
    return "members" if type(value) in (list, tuple) and value and all(map(array_class, value)) else ""


def _stays(value: Any, depth: int) -> bool:
    if not isinstance(value, FunctionType) or not _reads_what_stays(value, depth):
        return False
    held = [each for _, each in closure(value)]
    return all(each is None or type(each) in (*_NUMBERS, str) or _is_fixed(each, depth - 1) for each in held)


def _reads_what_stays(function: FunctionType, depth: int) -> bool:
    """Whether it reads, of its module's names, no values, but functions, classes, modules; and variables."""
    if depth == 0 or function.__kwdefaults__ or not all(type(each) in _NUMBERS for each in function.__defaults__ or ()):
        return False
    held = [function.__globals__[name] for name in _names(function.__code__) if name in function.__globals__]
    return all(_is_fixed(each, depth - 1) for each in held)


def _is_fixed(value: Any, depth: int) -> bool:
    if isinstance(value, (type, ModuleType, BuiltinFunctionType)) or array_class(value) == "ResourceVariable":
        return True
    name = getattr(value, "__module__", None) or ""
    if name.partition(".")[0] in _OFFER_FUNCTIONS:
        return callable(value)
    return _stays(value, depth)


@lru_cache(maxsize=256)
def _names(code: CodeType) -> frozenset[str]:
    return frozenset(code.co_names).union(*(_names(each) for each in code.co_consts if isinstance(each, CodeType)))
