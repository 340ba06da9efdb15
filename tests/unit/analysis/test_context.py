"""What stands in a trace beside its events is declared: a signature's context, a compile's arguments, the run's row."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coldstep.context import CAUSE, FORMS, Form, counted, counts_in, listed, names_in, parsed
from coldstep.events import UNKNOWN, Args, CompileArgs
from coldstep.model import Dropped
from coldstep.pftrace import layout, proto
from coldstep.pftrace.reader import EventRow, rows
from coldstep.run_row import RunRow, run_row
from coldstep.vocabulary import CAUSES

ROOT = Path(__file__).parents[3]
TRACES = sorted((ROOT / "tests/traces").glob("*.pftrace"))


def events() -> Iterator[EventRow]:
    for path in TRACES:
        yield from (row for row in rows(path) if isinstance(row, EventRow))


# --- the context --------------------------------------------------------------------------------------------------


def test_every_key_of_the_kept_traces_is_declared() -> None:
    keys = {key for row in events() for key in row.args.get("context") or ()}
    assert len(keys) > 30
    assert {key for key in keys if parsed(key) is None} == set()


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.word)
def test_what_a_form_builds_it_reads(form: Form) -> None:
    for place in ("x", "cuda", "batch['a b'].n[0]", "self.s\n(x)") if form.around == (" ", "") else ("cpu", "cuda"):
        assert parsed(form.key(place)) == (form, place if form.place else "")
        assert not form.place or form.at({place: "1"}) == {form.key(place): "1"}


@given(st.text() | st.sampled_from([form.word for form in FORMS]).map(lambda word: f"{word} "))
def test_a_key_that_is_read_is_the_one_that_would_be_built(key: str) -> None:
    known = parsed(key)
    assert known is None or known[0].key(known[1]) == key


@pytest.mark.parametrize("key", ["", "tree", "tree ", "trees x", "cache 2", "graph imputs", "autocast cpu", "config"])
def test_a_key_that_nobody_declares_is_none(key: str) -> None:
    assert parsed(key) is None


def test_a_third_party_may_name_any_cause() -> None:
    assert parsed("cause acme_flag fast") == (CAUSE, "acme_flag fast")
    assert parsed("cause acme_flag") == (CAUSE, "acme_flag")


def test_every_form_leads_to_a_cause_and_is_documented() -> None:
    text = (ROOT / "docs/reference/format.md").read_text()
    for form in FORMS:
        assert form.cause in {"", "unknown", *(cause.name for cause in CAUSES)}
        said = f"`{form.key(f'<{form.place}>')}`" if form.place else f"`{form.word}`"
        assert f"| {said} | {form.meaning} |" in text


def test_lists_and_counts_are_read_as_they_were_written() -> None:
    assert names_in(listed(["x", "y="])) == ["x", "y="]
    assert names_in("") == []
    counter = Counter({"add": 2, "f32[] 0.5": 1})
    assert counts_in(counted(counter)) == counter


# --- a compile ----------------------------------------------------------------------------------------------------


def test_every_argument_of_a_compile_is_documented() -> None:
    said = {key for row in events() if row.category == layout.COMPILE for key in row.args}
    said |= {key for row in events() if row.kind == proto.SLICE_END and "outcome" in row.args for key in row.args}
    assert len(said) > 20
    assert said - {"compile", UNKNOWN} <= CompileArgs.__annotations__.keys()


# --- the run ------------------------------------------------------------------------------------------------------


def both_ends(path: Path) -> Args:
    said: Args = {}
    for row in rows(path):
        if isinstance(row, EventRow) and (row.category == layout.TRACE or "ended" in row.args):
            said |= row.args
    return said


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_what_a_kept_trace_says_of_its_run_is_all_read_and_would_be_written_alike(path: Path) -> None:
    said = both_ends(path)
    row = run_row(said)
    again = row.at_begin() | row.at_end()
    assert {key: value for key, value in again.items() if value not in (None, {})} == said


def test_a_run_row_is_read_as_it_was_written() -> None:
    place = {"file": "/w/t.py", "line": 3, "function": "f"}
    row = RunRow("/w", 7, "coldstep/1", ["t.py"], "2026-11-20T12:00:00+00:00", 7, "h", "b", 6, 1, 5, 2, {"c": "In[1]"},
                 {"python": "3"}, 9, ["jax"], {"acme": {}}, "exception", "E: x", place, True, Dropped(0, 3), 1 << 30,
                 {"team": "a"}, 3, "j", "t.pftrace", "EngineCore", "spawn", [[6, 2]])  # fmt: skip
    assert run_row(row.at_begin() | row.at_end()) == row
    keys = {field.name for field in fields(RunRow)}
    assert keys == row.at_begin().keys() | row.at_end().keys()
    assert keys <= set(re.findall(r"`(\w+)`", (ROOT / "docs/reference/format.md").read_text()))
