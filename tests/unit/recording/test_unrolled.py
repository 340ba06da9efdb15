"""A Python loop of which a program holds every turn, by the lines of its operations."""

from __future__ import annotations

import gc
import linecache
from pathlib import Path
from typing import Any

import pytest

from coldstep_collectors.unrolled import Operation, _loops_in, unrolled

LOOP = "def roll(x):\n    for _ in range(20):\n        x = x * 2\n        x = x + layer(x)\n    return x\n"
LAYER = "def layer(x):\n    return x.sin()\n"


def test_the_loop_is_named_and_only_files_that_may_hold_it_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (roll := tmp_path / "roll.py").write_text(LOOP)
    (layer := tmp_path / "layer.py").write_text(LAYER)
    operations = [
        operation
        for _ in range(20)
        for operation in (
            Operation("mul", [(str(roll), 3, "roll")], []),
            Operation("add", [(str(roll), 4, "roll")], []),
            Operation("sin", [(str(roll), 4, "roll"), (str(layer), 2, "layer")], []),
        )
    ]
    read, lines = [], linecache.getlines

    def getlines(file: str, *rest: Any) -> list[str]:
        read.append(file)
        return lines(file, *rest)

    monkeypatch.setattr(linecache, "getlines", getlines)
    loop = unrolled(operations)
    assert loop is not None
    assert (loop["location"], loop["turns"]) == ({"file": str(roll), "line": 2, "function": "roll"}, 20)
    assert (loop["operations"], loop["called"]) == (60, 20)
    assert set(read) == {str(roll)}


def test_no_file_is_read_where_no_operation_comes_as_often_as_a_loop_has_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (roll := tmp_path / "roll.py").write_text(LOOP)
    operations = [Operation(f"operation {n % 8}", [(str(roll), 3, "roll")], []) for n in range(56)]
    monkeypatch.setattr(linecache, "getlines", lambda *_: pytest.fail("a file was read"))
    assert unrolled(operations) is None


# around it: what an outermost statement's lines, by their indentation, would get wrong
AROUND = {
    "nothing": ("", ""),
    "functions": (
        "def before():\n    for _ in x:\n        pass\n\n\n",
        "\n\ndef after():\n    return [y for y in x]\n",
    ),
    "a class": ("class Model:\n    for _ in range(3):\n        pass\n", ""),
    "what goes on at the left": ("if x:\n    pass\nelse:\n    pass\n", "# a remark\n"),
    "text at the left": ('TEXT = """\nfor a in b:\n"""\n', 'TEXT = """\nwhile a:\n"""\n'),
    "brackets at the left": ("call(\nx for x in y\n)\n", "call(\nx\n)\n"),
}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("at_left", ["", '    text = """\nfor a in b:\n    """\n', "    call(\nx\n)\n", "# a remark\n"])
def test_the_loop_is_found_whatever_stands_around_it_in_the_file(tmp_path: Path, around: str, at_left: str) -> None:
    before, behind = AROUND[around]
    head, rest = LOOP.split("\n", 1)
    loop = f"{head}\n{at_left}{rest}"
    (roll := tmp_path / "roll.py").write_text(before + loop + behind)
    line = roll.read_text().split("\n").index("    for _ in range(20):") + 1
    operations = [Operation(name, [(str(roll), line + 1, "roll")], []) for _ in range(20) for name in ("mul", "add")]
    found = unrolled(operations)
    assert found is not None
    assert (found["location"]["line"], found["turns"]) == (line, 20)


def test_turns_with_inputs_of_their_own_are_layers_where_they_are_alike_in_shape(tmp_path: Path) -> None:
    (roll := tmp_path / "roll.py").write_text(LOOP)

    def layers(shape: str) -> list[Operation]:
        return [
            Operation("mul", [(str(roll), line, "roll")], [f"w{turn}.{line}"], shape.format(turn))
            for turn in range(20)
            for line in (3, 4)
        ]

    loop = unrolled(layers("(8, 64)"))
    assert loop is not None
    assert (loop["turns"], loop["layers"]) == (20, True)
    assert unrolled(layers("(8, {})")) is None


def test_turns_are_counted_by_what_each_has_once_not_by_what_it_has_twice(tmp_path: Path) -> None:
    (roll := tmp_path / "roll.py").write_text(LOOP)
    operations = [
        Operation(name, [(str(roll), line, "roll")], [])
        for _ in range(20)
        for name, line in (("mul", 3), ("mul", 3), ("sin", 3), ("sin", 3), ("add", 4))
    ]
    loop = unrolled(operations)
    assert loop is not None
    assert loop["turns"] == 20


def test_a_short_loop_in_each_of_few_turns_is_not_counted_as_many_turns(tmp_path: Path) -> None:
    (roll := tmp_path / "roll.py").write_text(LOOP)
    layer = [*["view"] * 3, *(f"operation {n}" for n in range(19))]  # three heads in each of three layers
    operations = [Operation(name, [(str(roll), 3, "roll")], []) for _ in range(3) for name in layer]
    assert unrolled(operations) is None


def test_a_file_is_parsed_without_a_collection_of_the_programs_objects(tmp_path: Path) -> None:
    """In a hook: a full collection that was due would be the program's longest pause."""
    file = tmp_path / "program.py"
    file.write_text("for i in range(3):\n    x = [i, i + 1, (i, i)]\n" * 1000)
    phases: list[str] = []
    gc.callbacks.append(watch := lambda phase, _: phases.append(phase))
    gc.collect()
    phases.clear()
    try:
        assert len(_loops_in(str(file), range(1, 2001))) == 1000
    finally:
        gc.callbacks.remove(watch)
    assert len(phases) <= 2
