"""Which value XLA has compiled in is only known where nothing else could be it."""

from __future__ import annotations

from typing import Any

import pytest

from coldstep_collectors.tensorflow.compiles import Call


def call(values: dict[str, str], **types: str) -> Call:
    rows: list[Any] = [{"argument": name, "type": type_} for name, type_ in types.items()]
    return Call(rows, values)


@pytest.mark.parametrize(
    ("types", "shows"),
    [
        ({"x": "f32[4]", "n": "i32[]"}, True),
        ({"x": "f32[4]", "n": "i32[]", "more": "i64[100]"}, False),  # more values than are looked at
        ({"x": "f32[None,4]", "n": "i32[]"}, False),
        ({"x": "f32[4]", "n": "i32[]", "flag": "bool[]"}, False),
    ],
)
def test_hidden_values_and_sizes_leave_it_unknown(types: dict[str, str], shows: bool) -> None:
    assert call({"n": "5"}, **types).shows_all() is shows


def test_the_values_that_differ() -> None:
    assert call({"n": "5", "m": "1"}).changed(call({"n": "4", "m": "1"})) == ["n"]
    assert call({"n": "5", "m": "1"}).changed(call({"n": "4"})) == ["n", "m"]
