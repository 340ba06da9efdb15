"""A class of fields is a dataclass to all who ask, whenever they ask first."""

from __future__ import annotations

import dataclasses
import pickle
import threading
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest

from coldstep._util.slotted import field, slotted, slotted_object


@slotted
class Row:
    """A row."""

    name: str
    kept: list[int] = field(default_factory=list)
    at: int | None = None


@slotted_object
class Thing:
    """One of its kind, even among equals."""

    name: str
    length: int = field(init=False)

    def __post_init__(self) -> None:
        self.length = len(self.name)


@slotted
class Longer(Row):
    """A row with more."""

    more: int = 7


def test_its_objects_are_those_of_a_dataclass_with_slots() -> None:
    row, other = Row("a"), Row("a", at=None)
    assert [row == other, row == Row("b"), row == "a"] == [True, False, False]
    assert row.kept is not other.kept
    assert repr(row) == "Row(name='a', kept=[], at=None)"
    assert pickle.loads(pickle.dumps(row)) == row
    no_field: Any = row
    without_values: Any = Row
    with pytest.raises(AttributeError):
        no_field.other = 1
    with pytest.raises(TypeError, match="name"):
        without_values()
    assert (Thing("four").length, Thing("a") == Thing("a")) == (4, False)


def test_one_without_an_object_so_far_has_fields() -> None:
    @slotted
    class Later:
        one: int
        two: str = "b"

    assert is_dataclass(Later)
    assert [each.name for each in fields(Later)] == ["one", "two"]
    assert replace(Later(1), two="c") == Later(1, "c")


@pytest.mark.parametrize("so_far", range(5))
def test_each_object_takes_and_refuses_the_same_values(so_far: int) -> None:
    @slotted
    class Of:
        one: int
        two: str = "b"
        kept: list[int] = field(default_factory=list)

    kind: Any = Of
    before = [kind(0) for _ in range(so_far)]
    for values, named, message in (
        ((), {}, "one"), ((), {"two": "c"}, "one"), ((1, "c", [], 4), {}, "positional"),
        ((1,), {"one": 2}, "multiple values"), ((1,), {"four": 4}, "unexpected keyword argument 'four'"),
    ):  # fmt: skip
        with pytest.raises(TypeError, match=message):
            kind(*values, **named)
    after = [kind(1), kind(1, "c"), kind(1, kept=[3]), kind(two="d", one=2)]
    assert list(map(repr, after)) == [
        f"{Of.__qualname__}(one={one}, two={two!r}, kept={kept})"
        for one, two, kept in ((1, "b", []), (1, "c", []), (1, "b", [3]), (2, "d", []))
    ]
    assert len({id(each.kept) for each in before + after}) == so_far + 4


@pytest.mark.parametrize("refused_first", [False, True])
def test_the_first_object_is_made_as_any_other(refused_first: bool) -> None:
    @slotted_object
    class First:
        name: str
        length: int = 0
        seen: dict[str, int] = field(default_factory=dict)

        def __post_init__(self) -> None:
            self.length = len(self.name)

    kind: Any = First
    if refused_first:
        with pytest.raises(TypeError, match="nam"):
            kind(nam="four")
    made = [kind("four"), kind(name="four"), kind("four", seen={})]
    assert [(each.name, each.length, each.seen) for each in made] == [("four", 4, {})] * 3
    assert made[0].seen is not made[1].seen


def test_what_is_derived_from_one_has_its_fields_too() -> None:
    row = Longer("a", [1], 2)
    assert [each.name for each in fields(row)] == ["name", "kept", "at", "more"]
    assert (row.name, row.kept, row.at, row.more) == ("a", [1], 2, 7)


def test_many_threads_may_make_the_first_object_at_a_time() -> None:
    for _ in range(50):

        @slotted
        class New:
            values: list[int] = field(default_factory=list)

        made: list[New] = []
        begin = threading.Barrier(4)

        def make(made: list[New] = made, begin: threading.Barrier = begin, kind: type[New] = New) -> None:
            begin.wait()
            made.append(kind())

        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [row.values for row in made] == [[]] * 4
        assert len({id(row.values) for row in made}) == 4


def test_a_field_of_dataclasses_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Wrong\.values: take `field` from coldstep\._util\.slotted"):

        @slotted
        class Wrong:
            values: list[int] = dataclasses.field(default_factory=list)
