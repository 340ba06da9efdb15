"""What is made of the scenario programs: the matrix, the catalogue, the rule by which other tools are judged."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import scenarios
from coldstep_viewers.catalogue.pages import TITLES, pages
from scenarios.catalogue import CATALOGUE, entries, summary
from scenarios.matrix import Outcome, matrix

ROOT = Path(__file__).parents[2]
STACKS = [stack for stack in TITLES if any((scenarios.HERE / stack).glob("*.py"))]
SHAPE = ("shape", "x", "f32[8]", "f32[5]")
DTYPE = ("dtype", "x", "f32[8]", "f64[8]")


def outcome(expected: list[scenarios.Said], reported: list[scenarios.Said]) -> Outcome:
    return Outcome(scenarios.Scenario(Path("jax/program.py"), expected), reported)


def test_what_is_right_is_on_the_diagonal() -> None:
    outcomes = [outcome([SHAPE, DTYPE], [SHAPE, DTYPE]), outcome([SHAPE], [SHAPE]), outcome([], [])]
    assert matrix("jax", outcomes).splitlines() == [
        "jax          1   2   3",
        " 1 shape     2   .   .",
        " 2 dtype     .   1   .",
        " 3 nothing   .   .   1",
    ]
    assert [complaint for each in outcomes for complaint in each.complaints()] == []


def test_what_is_wrong_is_marked_and_told() -> None:
    unknown = ("unknown", None, None, None)
    outcomes = [
        outcome([SHAPE, DTYPE], [DTYPE]),  # one is missing
        outcome([], [SHAPE]),  # one too many
        outcome([DTYPE], [unknown]),
        outcome([SHAPE], [("shape", "x", "f32[8]", "f32[6]")]),  # the right cause, and a wrong value
        Outcome(scenarios.Scenario(Path("jax/program.py")), failure="Killed"),
    ]
    assert matrix("jax", outcomes).splitlines() == [
        "jax          1   2   3   4",
        " 1 shape     1   .   .  1!",
        " 2 dtype     .   1  1!   .",
        " 3 unknown   .   .   .   .",
        " 4 nothing  1!   .   .   .",
    ]
    assert [list(each.complaints()) for each in outcomes] == [
        ["jax/program: expected shape of x: f32[8] → f32[5]; reported nothing"],
        ["jax/program: expected nothing; reported shape of x: f32[8] → f32[5]"],
        ["jax/program: expected dtype of x: f32[8] → f64[8]; reported unknown: None → None"],
        ["jax/program: expected shape of x: f32[8] → f32[5]; reported shape of x: f32[8] → f32[6]"],
        ["jax/program did not run: Killed"],
    ]
    assert list(outcome([unknown], [unknown]).complaints())


@pytest.mark.parametrize("stack", STACKS)
def test_the_catalogue_shows_every_mechanism_of_the_suite_by_a_program_as_it_is(stack: str) -> None:
    shown = {(page.of_break, page.name): page for page in pages() if page.stack == stack}
    for entry in entries(stack):
        page = shown.pop((entry.of == "break", entry.name))
        assert page.program == entry.program.read_text().rstrip(), f"python -m scenarios --catalogue: {entry.program}"
        assert page.about, entry.key
        assert page.fix, entry.key
        assert page.report, entry.key
        for other, line in zip(entry.others, page.more, strict=True):
            assert line.startswith(summary(other)), "python -m scenarios --catalogue"
    assert [name for _, name in shown] == ["nothing"]


def test_the_catalogue_names_no_machine() -> None:
    for text in (*CATALOGUE.glob("*/*.json"), *CATALOGUE.glob("*/*.toml")):
        assert not re.search(r"(?<![\w.*/])/[\w.-]+/", text.read_text())
        assert not re.search(r"\b0x[0-9a-f]+|cost \d", text.read_text())


JUDGED = {
    "0/0: tensor 'batch['x']' size mismatch at index 0. expected 8, actual 5": (True, True, True, True),
    "0/0: 2 <= batch['x'].size()[0]": (True, True, False, False),
    "0/0: batch['x'] is None": (False, True, False, False),
    "0/0: tensor 'batch['y']' size mismatch at index 0. expected 8, actual 6": (True, False, True, False),
    "different input types: at batch['x'], now f32[5,4] and before f32[8,4]": (True, True, True, True),
    "different input types: at batch['x'], now bf16[8,4] and before f32[8,4]": (False, True, True, False),
    "different input types: at input path [0][1]['x'], now f32[5,4] and before f32[8,4]": (True, True, True, True),
    "Tracing context doesn't match: jax_enable_x64 differs: now True and before False": (False,) * 4,
}


@pytest.mark.parametrize("text", JUDGED)
def test_other_tools_are_judged_by_what_they_say(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks/published")
    explain, stated = __import__("explain"), __import__("stated")
    clause = (explain.of_guard if text.startswith("0/0") else explain.of_miss)(text)
    expected = ("shape", "batch['x']", "f32[8,4]", "f32[5,4]")
    assert stated.judge(expected, [clause], {"state": 0, "batch": 1}) == JUDGED[text]
