"""A trace keeps the loop or function around what compiled again, failed or holds a loop's turns: once, and no more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coldstep.converting.anonymise import Private
from coldstep.recording.source_lines import Blocks, with_code

SOURCE = """import jax


@jax.jit
def step(
    x,
):
    for _ in range(9):
        # x
        x = x + 1
    return x


class Model:
    def call(self, x):
        return step(x)


for i in range(3):
    if i:
        step(i)
    else:
        step(1)
# the end
step(3)
"""


@pytest.fixture
def place(tmp_path: Path) -> Any:
    path = tmp_path / "train.py"
    path.write_text(SOURCE)
    return lambda line: {"file": str(path), "line": line, "function": "f"}


def texts(args: dict[str, Any]) -> list[tuple[int, int]]:
    """The first and the last line of each block that was added."""
    blocks = [value["block"] for value in args.values() if isinstance(value, dict) and "block" in value]
    return [(each["line"], each["line"] + each["text"].count("\n") - 1) for each in blocks]


@pytest.mark.parametrize(("line", "block"), [(10, (4, 11)), (16, (15, 16)), (23, (19, 23)), (25, None), (99, None)])
def test_a_block_goes_as_far_as_the_function_or_the_outermost_loop(place: Any, line: int, block: Any) -> None:
    blocks, args = Blocks(), {"key": "f", "origin": "user", "caller": place(line)}
    assert texts(blocks.begun(args)) == ([block] if block else [])
    assert texts(blocks.begun(args)) == []  # it is there


def test_of_first_calls_a_few_have_theirs_and_of_further_ones_each(place: Any, tmp_path: Path) -> None:
    many = tmp_path / "many.py"
    many.write_text("for i in range(3):\n    step(i)\n" * 20)
    blocks, found = Blocks(), []
    for number in range(20):
        args = {"key": f"f{number}", "origin": "user", "caller": {"file": str(many), "line": 2 * number + 2}}
        found.append(len(texts(blocks.begun(args))))
    assert found == [1] * 16 + [0] * 4
    assert len(texts(blocks.begun(args))) == 1


def test_a_failure_has_its_function_and_a_loop_its_own(place: Any) -> None:
    args = Blocks().ended({"outcome": "failed"}, {"location": place(4)})
    assert (args["failed_in"]["line"], texts(args)) == (5, [(4, 11)])
    args = Blocks().ended({"unrolled": {"location": place(8)}}, {})
    assert texts(args["unrolled"]) == [(4, 11)]


def test_what_a_collector_reports_has_the_function_around_its_line(place: Any) -> None:
    assert texts(Blocks().around({"location": place(10), "advice": ""})) == [(4, 11)]


def test_neither_a_librarys_source_nor_a_long_one_is_kept(place: Any, tmp_path: Path) -> None:
    library = tmp_path / "site-packages/library.py"
    library.parent.mkdir()
    library.write_text(SOURCE)
    long = tmp_path / "long.py"
    long.write_text("def main():\n" + "    x = 1\n" * 200 + "    for i in x:\n        step(i)\n")
    for file, line, block in ((library, 10, []), (long, 203, [(202, 203)])):
        args = Blocks().ended({"outcome": "failed"}, {"location": {"file": str(file), "line": line, "function": ""}})
        assert texts(args) == block


def test_a_published_trace_has_no_block(place: Any) -> None:
    args = Blocks().ended({"outcome": "failed"}, {"location": place(4)})
    published = Private().args(with_code(args))
    assert "block" in args["failed_in"]
    assert "block" not in published["failed_in"]
    assert "range" not in str(published)
