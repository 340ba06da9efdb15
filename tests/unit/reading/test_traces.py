"""Traces of earlier coldsteps (`tests/traces/`) say today what they said when they were made."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

import coldstep
from coldstep.events import CompileArgs
from coldstep.model import Location
from coldstep.pftrace import layout, proto
from coldstep.pftrace.reader import EventRow, rows
from coldstep.vocabulary import OURS

TRACES = sorted((Path(__file__).parents[2] / "traces").glob("*.pftrace"))
_NAMED = "a finding names the kind of step that it is in, and says both values whatever the cause"
_LISTED = "lists and times read as they do in the rest of the report: a and b, 21.4 s"
_METRICS = "Keras' metrics make variables, too, where compile() is given names or functions"
_BROKEN = "a graph break is called by what broke it"
_READ = "a host read is a cause, with what to do about it"
_READS = "a program that reads its result on the next line need not wait twice"
_CALLS = "calls that are inferred are called calls"
_STATIC = "a static argument that is passed as an array ends in an error: it is taken off static_argnames"
_NUMBER = "a number that a slice or a shape needs is not passed as a tensor: the graph would break"
_EAGER = "what eager operations compile again and again counts for settling"
_ENVIRONMENT = "where variables of the environment mend it without an edit, they are named"
_CHANGES = "advice says what it changes: rows left out, results without a mask, rounding"
_SPLIT = "of several causes a finding has how often each was, and which remedy is for which"
CHANGED = {
    **dict.fromkeys(("jax_train:recompiles.[24].advice", "jax_train:findings.[17].advice"), _CHANGES),
    **dict.fromkeys(
        ("tf_train:recompiles.0.advice", "tf_train:settling.0.causes.0.advice", "tf_train:findings.3.advice"), _CHANGES
    ),
    **dict.fromkeys(
        (
            "jax_train:recompiles.1.advice",
            "jax_train:settling.0.causes.1.advice",
            "jax_train:findings.[02].advice",
        ),
        _STATIC,
    ),
    **dict.fromkeys(("jax_train:findings.[35].advice", "jax_killed:findings.1.advice"), _EAGER),
    **dict.fromkeys(("jax_inferred:findings.1.advice", "xla_inferred:findings.1.advice"), _READS),
    "tf_train:findings.2.evidence.0": "of two traces the second, and the variables, are what is saved",
    "jax_killed:findings.0.text": "a trace without an end may also be a file that was cut later",
    **dict.fromkeys(
        (
            "jax_killed:findings.1.text",
            "jax_train:findings.[36].text",
            "torch_train:findings.[345].text",
            "xla_openxla:findings.[14].text",
            "xla_train:findings.[45].text",
        ),
        _NAMED,
    ),
    **dict.fromkeys(("jax_train:findings.5.text",), _LISTED),
    **dict.fromkeys(
        ("torch_train:recompiles.0.advice", "torch_train:settling.0.causes.2.advice", "torch_train:findings.1.advice"),
        _NUMBER,
    ),
    **dict.fromkeys(
        (
            "torch_train:recompiles.[13].advice",
            "torch_train:settling.1.causes.[02].advice",
            "torch_train:findings.[2356].advice",
            "xla_openxla:recompiles.2.advice",
            "xla_openxla:settling.0.causes.*.advice",
            "xla_openxla:findings.0.advice",
        ),
        _ENVIRONMENT,
    ),
    **dict.fromkeys(
        (
            "jax_train:findings.0.text",
            "torch_train:findings.2.text",
            "xla_train:findings.1.text",
            "xla_train:findings.1.advice",
        ),
        _SPLIT,
    ),
    "tf_train:findings.2.advice": _METRICS,
    **dict.fromkeys(("jax_inferred:findings.2.text", "jax_inferred:findings.2.advice"), _CALLS),
    **dict.fromkeys(("torch_train:findings.0.text", "xla_train:findings.6.text"), _BROKEN),
    **dict.fromkeys(
        ("xla_train:graph_breaks.0.advice", "xla_train:findings.6.advice", "xla_train:settling.0.causes.1.*"), _READ
    ),
}
"""What is meant to differ, and why: by `trace:path.of.the.field`, where * stands for anything."""


def differences(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """Where a document says something else than an earlier one; what is new in it is none of that."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before:
            below = f"{path}.{key}" if path else key
            if key in after:
                yield from differences(before[key], after[key], below)
            else:
                yield f"{below}: gone"
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for n, (was, now) in enumerate(zip(before, after, strict=True)):
            yield from differences(was, now, f"{path}.{n}")
    elif before != after:
        yield f"{path}: {before!r} is now {after!r}"


@pytest.mark.parametrize("trace", TRACES, ids=lambda path: path.stem)
def test_a_kept_trace_gives_the_report_that_it_gave(trace: Path) -> None:
    before = json.loads(gzip.decompress(trace.with_suffix(".json.gz").read_bytes()))
    after = json.loads(json.dumps(coldstep.load(trace).to_json()))
    found = [f"{trace.stem}:{text}" for text in differences(before, after)]
    assert [text for text in found if not any(fnmatchcase(text.partition(": ")[0], known) for known in CHANGED)] == []


def test_the_kept_traces_are_of_every_kind() -> None:
    """What is not in them, no later change is held against."""
    assert sum(path.stat().st_size for path in (Path(__file__).parents[2] / "traces").iterdir()) <= 440_000
    traces = [coldstep.load(path) for path in TRACES]
    compiles = [row for trace in traces for row in trace.compiles]
    assert {row.stack for row in compiles} == {"jax", "dynamo", "torch_xla", "tensorflow"}
    assert {row.ended for trace in traces for row in trace.processes} == {"ok", "killed"}
    assert {row.source for trace in traces for row in trace.intervals} == {"marked", "inferred"}
    assert any(row.memory for row in compiles)
    assert any(trace.keeps_programs for trace in traces)
    assert any(trace.graph_breaks for trace in traces)
    assert any(row.inside for trace in traces for row in trace.intervals)
    assert {row.cause for trace in traces for row in trace.recompiles} >= {"shape", "cache_cleared", "optimizer_state"}


def test_a_difference_is_seen_and_what_is_new_is_none() -> None:
    before = {"rows": [{"id": "a", "n": 1}], "old": 1}
    assert list(differences(before, {"rows": [{"id": "a", "n": 1, "new": 2}], "old": 1, "more": []})) == []
    assert list(differences(before, {"rows": [{"id": "a", "n": 2}]})) == ["rows.0.n: 1 is now 2", "old: gone"]
    assert list(differences(before, {"rows": [], "old": 1})) == ["rows: [{'id': 'a', 'n': 1}] is now []"]


def outside(row: Any) -> Iterator[str]:
    """The fields of a row, and of those below it, that hold none of the words that their types name."""
    if isinstance(row, list):
        for each in row:
            yield from outside(each)
    elif is_dataclass(row):
        types = get_type_hints(type(row))
        for each in fields(row):
            value = getattr(row, each.name)
            yield from outside(value)
            for type_ in (types[each.name], *get_args(types[each.name])):
                if get_origin(type_) is Literal and value is not None and value not in get_args(type_):
                    yield f"{type(row).__name__}.{each.name}: {value}"


def test_enumerations_name_every_word_that_stands_in_a_trace() -> None:
    assert {each for path in TRACES for each in outside(coldstep.load(path))} == set()
    assert list(outside([replace(coldstep.load(TRACES[0]).compiles[0], outcome="done")])) == ["Compile.outcome: done"]


def test_what_stands_in_a_trace_is_documented() -> None:
    """docs/reference/format.md names every kind of track, every argument, every instant, and every part of the JSON."""
    named = set(re.findall(r"`([\w ]+)`", (Path(__file__).parents[3] / "docs" / "reference" / "format.md").read_text()))
    instants = {layout.STEP_BEGAN, layout.STEP_ENDED, layout.HEARTBEAT, layout.NOTE, layout.COLLECTOR, layout.CLOCK}
    found = {*OURS.tracks, *instants, layout.GRAPH_BREAK, *CompileArgs.__annotations__}
    for path in TRACES:
        for row in rows(path):
            if isinstance(row, EventRow) and row.kind != proto.COUNTER:
                found |= row.args.keys()
        found |= coldstep.load(path).to_json().keys()
    assert found - named == set()


def test_rows_compare_and_print_as_dataclasses_do() -> None:
    place = Location("train.py", 3, "step")
    assert repr(place) == "Location(file='train.py', line=3, function='step')"
    assert place == replace(place)
    assert place != replace(place, line=4)
    assert place != ("train.py", 3, "step")
    with pytest.raises(TypeError, match="unhashable"):
        hash(place)
