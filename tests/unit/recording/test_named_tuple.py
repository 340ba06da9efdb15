"""A class of fields is as `typing.NamedTuple` makes it."""

from __future__ import annotations

import copy
import pickle
import typing
from typing import Any, get_type_hints

import pytest

from coldstep.named_tuple import NamedTuple


class Ours(NamedTuple):
    """Two fields."""

    name: str
    parts: tuple[int, ...] = ()
    """The second."""

    @property
    def size(self) -> int:
        return len(self.parts)

    def named(self, name: str) -> Ours:
        return self._replace(name=name)


class Theirs(typing.NamedTuple):
    """Two fields."""

    name: str
    parts: tuple[int, ...] = ()
    """The second."""

    @property
    def size(self) -> int:
        return len(self.parts)

    def named(self, name: str) -> Theirs:
        return self._replace(name=name)


@pytest.mark.parametrize("kind", [Ours, Theirs])
def test_it_is_a_tuple_with_names(kind: Any) -> None:
    row = kind("a", (1, 2))
    assert (row, row.named("b"), row.size, kind("a").parts) == (("a", (1, 2)), ("b", (1, 2)), 2, ())
    assert row._asdict() == {"name": "a", "parts": (1, 2)}
    assert repr(row) == f"{kind.__name__}(name='a', parts=(1, 2))"
    for copied in (pickle.loads(pickle.dumps(row)), copy.copy(row), kind._make(row)):
        assert (type(copied), copied) == (kind, row)
    assert (kind.__module__, kind.__qualname__, kind.__doc__) == (__name__, kind.__name__, "Two fields.")
    assert (kind._fields, kind._field_defaults) == (("name", "parts"), {"parts": ()})
    assert get_type_hints(kind) == {"name": str, "parts": tuple[int, ...]}
    assert not hasattr(row, "__dict__")
    with pytest.raises(TypeError):
        kind()
    with pytest.raises(AttributeError):
        row.name = "b"
