"""Makes a class of fields a dataclass with slots; how it compares and prints is written once, for all such classes.

`dataclass` compiles both anew for each class, and there are a hundred of them, for which every traced process waits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar, dataclass_transform

Class = TypeVar("Class", bound=type)


@dataclass_transform(field_specifiers=(field,))
def slotted(cls: Class) -> Class:
    """As `dataclass(slots=True)`; a `__repr__` of the class's own stays."""
    made: Any = dataclass(slots=True, eq=False, repr=False)(cls)
    made.__eq__, made.__hash__ = _equal, None
    if made.__repr__ is object.__repr__:
        made.__repr__ = _printed
    result: Class = made
    return result


def _equal(self: Any, other: Any) -> Any:
    if type(other) is not type(self):
        return NotImplemented
    return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)


def _printed(self: Any) -> str:
    fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
    return f"{type(self).__qualname__}({fields})"
