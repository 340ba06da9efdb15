"""The words of stacks, phases, causes and findings: written once, complete, and none of ours to be changed."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import scenarios

import coldstep
from coldstep.analysis import advice
from coldstep.analysis.rules.registry import RULES
from coldstep.clock import Snapshot
from coldstep.events import Begin, End, StepBegin, StepEnd
from coldstep.pftrace.layout import FILE_SCHEMA
from coldstep.recording.buffer import Thread
from coldstep.recording.recorder import Recorder
from coldstep.vocabulary import (
    ANSI,
    CAUSES,
    FINDINGS,
    OURS,
    PHASES,
    STACKS,
    SUMS,
    Cause,
    Phase,
    Stack,
    Words,
    of_trace,
    plain,
)
from coldstep_viewers.catalogue.pages import TITLES
from coldstep_viewers.report.html import page, summary
from coldstep_viewers.report.terminal import render

ROOT = Path(__file__).parents[3]
HOME = Thread(7, "MainThread")
MS = 1_000_000
HOSTILE = "</style><script>alert(1)</script>"
FOREIGN = Words(
    stacks=(Stack("acme", "Acme", "acme", ("acme",), "acme", exact=True, in_call=True),),
    phases=(Phase("acme.build", "Acme building", "#123456", "#fedcba", "magenta", compiles=True),),
    causes=(
        Cause("acme_flag", "a flag of Acme's", advice="Set {argument} once: it was {before}, now {after}."),
        Cause("dtype", "renamed", advice="Cast {argument} for Acme."),
    ),
)


# --- ours ---------------------------------------------------------------------------------------------------------


def test_every_phase_has_words_and_colours_of_its_own() -> None:
    rows = (*PHASES, *SUMS)
    assert len({row.words for row in rows}) == len({row.light for row in rows}) == len({row.dark for row in rows})
    assert all(re.fullmatch(r"#[0-9a-f]{6}", colour) for row in rows for colour in (row.light, row.dark))
    assert {row.ansi for row in rows} <= {"", *ANSI}
    assert {row.track for row in STACKS} <= set(OURS.tracks)


def test_every_cause_that_a_stack_can_have_has_advice_and_no_other() -> None:
    causes = {cause.name for cause in CAUSES}
    advised = {(stack.name, key) for stack in STACKS for key in RULES[stack.name].remedies if key in causes}
    anywhere = {(stack.name, cause) for stack in STACKS for cause in causes & advice._ANY.keys()}
    possible = {(stack, cause.name) for cause in CAUSES for stack in cause.stacks}
    assert possible - anywhere - advised == set()
    assert advised - possible == set()
    assert {cause.name for cause in CAUSES if not cause.stacks} == set()


def test_the_programs_expect_only_causes_that_their_stack_can_have() -> None:
    stacks = {"torch": "dynamo"}
    expected = {
        (stacks.get(path.parent.name, path.parent.name), said[0])
        for path in scenarios.PROGRAMS
        for said in scenarios.read(path).recompiles
    }
    assert expected <= {(stack, cause.name) for cause in CAUSES for stack in cause.stacks}
    assert {stacks.get(name, name) for name in TITLES} == {stack.name for stack in STACKS}


def test_the_kept_traces_have_words_for_all_that_is_in_them() -> None:
    for path in (ROOT / "tests/traces").glob("**/*.pftrace"):
        trace = coldstep.load(path)
        phases = {name for row in trace.intervals for name in row.phases if not name.startswith("import.")}
        assert phases <= set(trace.vocabulary.phases), path
        assert {row.stack for row in trace.compiles} <= set(trace.vocabulary.stacks), path
        assert {row.kind for row in trace.findings} <= set(trace.vocabulary.findings), path


def test_every_kind_of_finding_that_is_made_has_a_meaning() -> None:
    made = set()
    for file in (ROOT / "tracer/coldstep/analysis").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("finding", "of_compile", "of_story"):
                place = {"finding": 0, "of_compile": 2, "of_story": 2}[node.func.id]  # type: ignore[attr-defined]
                texts = (each.value for each in ast.walk(node.args[place]) if isinstance(each, ast.Constant))
                made |= {text for text in texts if isinstance(text, str)}
    of_budgets = {"cuda_graph", "compile"}
    assert made - of_budgets - {"fast_path_miss"} == {kind.name for kind in FINDINGS if not kind.reported}


def test_the_page_of_words_has_those_of_today(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    import build

    text = "\n".join(build.words())
    assert all(f"| `{kind.name}` | {kind.meaning} |" in text for kind in FINDINGS)


def test_the_vocabulary_imports_no_other_part() -> None:
    trees = [ast.parse(path.read_text()) for path in (ROOT / "tracer/coldstep/vocabulary").glob("*.py")]
    named = {node.module for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    others = {name for name in named if name and not name.startswith("coldstep.vocabulary.")}
    # which itself imports nothing of ours
    assert {name.partition(".")[0] for name in others - {"coldstep.named_tuple"}} <= {
        "__future__", *sys.stdlib_module_names
    }  # fmt: skip


# --- those of others ----------------------------------------------------------------------------------------------


def write(path: Path, vocabulary: object, track: str = "acme") -> Path:
    """A trace of two steps: one function compiled in each, with another flag and another dtype."""
    about = {"schema": FILE_SCHEMA, "command": ["train.py"], "root": "/w", "started": "2026-11-20T12:00:00+00:00",
             "pid": 7, "tid": 7, "collectors": ["acme"], "vocabulary": vocabulary}  # fmt: skip
    with path.open("wb") as file:
        recorder = Recorder(file.fileno(), HOME, None, Snapshot(1, 1, 1, 0), about)
        ns = MS
        for n in range(2):
            step = StepBegin(ns, "step", n)
            args = {"part": "forward", "function": "f", "origin": "user", "identity": "f", "key": "acme:/w/f.py:f",
                    "inputs": [{"argument": "x", "type": "f32[4]"}], "outcome": "compiled",
                    "context": {"cause acme_flag fast": str(n)}}  # fmt: skip
            compile_ = Begin(ns + 1, "f", track, None, f"c{n}", args)
            phase = Begin(ns + 2, "acme.build", track, "acme.build")
            ns += 5 * MS
            for event in (step, compile_, phase, End(ns, phase), End(ns, compile_), StepEnd(ns + MS, step, True, 0)):
                recorder.handle(event, HOME)
            ns += 2 * MS
        recorder.finish(ns, {"ended": "ok", "versions": {"acme": "1.0"}})
        recorder.flush()
    return path


def test_a_trace_holds_the_words_of_its_collectors(tmp_path: Path) -> None:
    trace = coldstep.load(write(tmp_path / "a.pftrace", {"acme": plain(FOREIGN)}))
    (row,) = trace.recompiles
    assert (trace.compiles[0].stack, row.cause, row.argument, row.confidence) == ("acme", "acme_flag", "fast", "proven")
    assert row.advice == "Set fast once: it was 0, now 1."
    text = render(trace, colour=True)
    assert "Acme building" in text
    assert "\x1b[35m" in text, "magenta"
    assert "acme.build" not in text
    shown = page(trace)
    assert "--acme-build: light-dark(#123456, #fedcba)" in shown
    assert "Acme building" in shown


def test_words_of_others_change_none_of_ours() -> None:
    words = FOREIGN._replace(
        stacks=(*FOREIGN.stacks, Stack("jax", "Mine", "mine", ("mine",), "mine"), Stack("x", "X", "torch", (), "x")),
        phases=(
            Phase("jax.trace", "mine", "#000000", "#000000", "red"),
            Phase("execute", "mine", "#000000", "#000000"),
        ),
    )
    vocabulary = of_trace({"acme": plain(words), "other": plain(FOREIGN._replace(stacks=()))})
    for mine, ours in ((vocabulary.phases, OURS.phases), (vocabulary.stacks, OURS.stacks)):
        assert {name: mine[name] for name in ours} == ours
    assert vocabulary.causes["dtype"] == OURS.causes["dtype"]
    assert list(vocabulary.stacks) == [*OURS.stacks, "acme"]
    assert vocabulary.advice["acme", "dtype"] == "Cast {argument} for Acme."
    assert list(vocabulary.tracks).index("acme") == list(vocabulary.tracks).index("ir") - 1


@pytest.mark.parametrize(
    "declared",
    [
        None,
        7,
        {"acme": 7},
        {"acme": {"stacks": {}, "phases": [7, {"name": 7}, {"name": "a" * 99 + ".b"}]}},
        {"acme": {"phases": [{"name": HOSTILE}, {"name": "ink", "light": "#fff"}, {"name": "import.torch"}]}},
        {
            "acme": {
                "stacks": [{"name": "a", "track": HOSTILE}, {"name": ["a"], "track": "a"}],
                "causes": [{"name": "A b"}],
            }
        },
    ],
)
def test_what_is_no_word_is_left_out(declared: Any) -> None:
    assert of_trace(declared) == OURS


def test_words_from_a_file_are_cut_and_stay_text(tmp_path: Path) -> None:
    words = plain(FOREIGN)
    words["phases"] = [
        {"name": "acme.build", "words": HOSTILE + "x" * 999, "light": f"#123456;{HOSTILE}", "ansi": "\x1b"}
    ]
    words["causes"][0]["advice"] = "{argument.__class__} {argument:>999999999} {0} {argument}" + "x" * 10_000
    trace = coldstep.load(
        write(tmp_path / "a.pftrace", {"acme": words} | {f"n{n}": plain(FOREIGN) for n in range(999)})
    )
    assert len(trace.vocabulary.phases) < 200
    assert len(trace.recompiles[0].advice) < 500
    assert trace.recompiles[0].advice.startswith("{argument.__class__} {argument:>999999999} {0} fast")
    for shown in (page(trace), summary(trace)):
        assert "<script>alert" not in shown
        assert "&lt;script&gt;alert" in shown
    assert "\x1b" not in render(trace)


@pytest.mark.undeclared
def test_a_track_that_nobody_declared_loses_nothing(tmp_path: Path) -> None:
    trace = coldstep.load(write(tmp_path / "a.pftrace", None))
    assert len(trace.compiles) == 2
    [track, phase] = trace.run.notes
    assert track == "A collector drew on a track 'acme' that its vocabulary does not have: see Annotations."
    assert phase.startswith("A collector emitted the phase 'acme.build' that its vocabulary does not have: ")


@pytest.mark.undeclared
def test_a_phase_that_nobody_declared_is_told_of_once_and_keeps_its_time(tmp_path: Path) -> None:
    words = plain(FOREIGN) | {"phases": []}
    trace = coldstep.load(write(tmp_path / "a.pftrace", {"acme": words}))
    [note] = trace.run.notes
    assert "'acme.build'" in note
    assert all(row.phases["acme.build"] > 0 for row in trace.intervals if row.kind == "step")
    assert "acme.build" in render(trace)


def test_no_test_reads_a_trace_with_words_that_nobody_declared(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"acme\.build"):
        coldstep.load(write(tmp_path / "a.pftrace", {"acme": plain(FOREIGN) | {"phases": []}}))
