"""The types of arrays, and Python values, as texts: taken apart for code that makes such a value."""

from __future__ import annotations

import ast

from coldstep._util.expressions import expression
from coldstep.signature import ArrayType, array_of

_LETTERS = {"f": "float", "i": "int", "u": "uint", "c": "complex"}
# coldstep: "i64"
_SHORT = expression(r"([fiuc])(\d+)(_\w+)?")
# coldstep: "@cpu:1"
DEVICE = expression(r"@([a-z]+)(?::(\d+))?")


class CannotMakeUp(ValueError):
    """A value that only the program itself can make; the message names it."""


def literal(path: str, text: str) -> str:
    """A Python value by its text, where that is one. Raises CannotMakeUp."""
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise CannotMakeUp(f"{path} is {text}") from None
    return text


def array_in(path: str, text: str) -> ArrayType | None:
    """An array's type taken apart; None for a Python value. Raises CannotMakeUp where its sizes are not all known."""
    if (array := array_of(text)) is not None and not all(size.isdigit() for size in _sizes(array)):
        raise CannotMakeUp(f"{path} is {text}, of which not every size is known")
    return array


def _sizes(array: ArrayType) -> list[str]:
    return array.dims.split(",") if array.dims else []


def shape(array: ArrayType) -> str:
    sizes = _sizes(array)
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"


def dtype(name: str) -> str | None:
    """The long name of a type of elements: "i64" is int64."""
    if name == "bool" or name.startswith("bfloat"):
        return name
    if name.startswith("bf"):
        return f"bfloat{name[2:]}"
    match = _SHORT.fullmatch(name)
    return f"{_LETTERS[match[1]]}{match[2]}{match[3] or ''}" if match else None
