"""Where a collector did not see all, that it saw nothing is no ground for a word: not known is said, and why."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import in_process
import program
import pytest

import coldstep
from coldstep import session
from coldstep.analysis.budgets import judge, parse
from coldstep.analysis.derive import analyse
from coldstep.blind_spots import CLAIMS, Unseen
from coldstep.clock import now
from coldstep.events import Args, Begin, End
from coldstep.loading import read
from coldstep.model import Trace
from coldstep_collectors.torch._private import limits
from coldstep_viewers.report.headline import headline
from coldstep_viewers.report.html import page
from coldstep_viewers.report.terminal import render

BLIND_JAX = """
    import sys

    import jax
    import numpy as np

    import coldstep

    # as a version that announces its phases in another way
    del jax.monitoring.register_scalar_listener, sys.modules["jax._src.dispatch"]

    @jax.jit
    def train_step(x):
        return (x**2).sum()

    with coldstep.trace("run.pftrace"):
        for size in (8, 8, 8, 8, 8, 5):
            x = np.ones((size, 4), np.float32)
            with coldstep.step():
                coldstep.wait(train_step(x))
"""
BLIND_TORCH = """
    import sys

    import torch

    import coldstep
    from coldstep_collectors.torch._private import names

    names.FRAME.forms = ()  # as a version that compiles its frames in another function

    @torch.compile(backend="eager")
    def train_step(x):
        return x * 2

    with coldstep.trace("run.pftrace"):
        for size in (8, 8, 8, 8, 8, 5):
            x = torch.ones(size)
            with coldstep.step():
                train_step(x)
"""
CLEAN = ("settled at", "compiled nothing", "nothing compiled", "0 recompiles")


@pytest.fixture(
    scope="module",
    params=[pytest.param(BLIND_JAX, marks=pytest.mark.jax), pytest.param(BLIND_TORCH, marks=pytest.mark.torch)],
)
def blind(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace of a step that compiles twice, by a collector that cannot see it."""
    folder = tmp_path_factory.mktemp("blind")
    program.run(request.param, folder, stack=program.stack_of(request.param))
    return folder / "run.pftrace"


def test_a_blind_collector_is_never_taken_for_a_clean_run(blind: Path) -> None:
    trace = coldstep.load(blind)
    [settling] = trace.settling
    assert (settling.verdict, settling.settled_at_step) == ("not_observable", None)
    assert [row.label for row in trace.intervals if row.kind == "step"][1:] == [None] * 5
    assert trace.cost[0].steady_step_ns is None
    assert {row.kind for row in trace.findings} >= {"blind"}
    said = headline(trace)
    assert "whether it settled is not known (the collector" in said
    assert "recompiles not known" in said
    report = render(trace)
    assert "Recompiles (not known)" in report
    for text in (said, report, page(trace).decode() if isinstance(page(trace), bytes) else page(trace)):
        assert not [words for words in CLEAN if words in text.partition("<script")[0]]


def test_a_step_in_which_nothing_was_seen_is_not_drawn_as_clean(blind: Path, engine: ModuleType) -> None:
    [names] = engine.query(blind, "select name from slice where name glob 'step [0-9]* *' order by ts")
    assert [row["name"].rpartition(" ")[2] for row in names] == ["first"] + 5 * ["unknown"]


def test_check_cannot_tell_and_diff_does_not_pretend(blind: Path) -> None:
    assert judge([coldstep.load(blind)], parse({"settle_by": 1})).word == "unknown"
    done = in_process.run("diff", blind, blind, "--json")
    assert json.loads(done.stdout)["unseen"]["before"]


# --- what hides what: without a framework ---------------------------------------------------------------------------


def traced(folder: Path, *missing: str, compiles: tuple[Args, ...] = (), steps: int = 6) -> Trace:
    """A trace in which a collector says that it lacks this, and sees one of `compiles` in each of the first steps."""
    path = str(folder / "run.pftrace")
    with coldstep.trace(path, collectors=[]):
        run = session.active()
        assert run is not None
        sink = run.sink
        sink.state("jax", "partial" if missing else "attached", "1", [*missing])
        for number in range(steps):
            with coldstep.step():
                if number < len(compiles):
                    about: Args = {"part": "forward", "function": "f", "outcome": "compiled", **compiles[number]}
                    begin = Begin(now(), "f", "jax", None, sink.new_compile(), about)
                    sink.emit(begin)
                    sink.emit(End(now(), begin))
    trace = read(path)
    for process in trace.processes:  # other tests may have imported frameworks that no collector watches here
        process.versions = {"python": process.versions["python"]}
    return analyse(trace)


def test_what_is_missing_hides_what_it_says_and_plain_words_hide_all(tmp_path: Path) -> None:
    harmless = traced(tmp_path, Unseen("when a backend starts"))
    assert harmless.collectors[0].missing == ["when a backend starts"]
    assert harmless.collectors[0].blind == []
    assert "settled at step 0;" in headline(harmless)
    assert judge([harmless], parse({"max_recompiles": 0, "settle_by": 0})).word == "within"
    recompiles = traced(tmp_path, Unseen("which function it is", "recompiles"))
    assert "settled at step 0; recompiles not known (the collector jax could not" in headline(recompiles)
    assert judge([recompiles], parse({"max_recompiles": 0})).word == "unknown"
    assert judge([recompiles], parse({"settle_by": 0})).word == "within"
    plain = traced(tmp_path, "something")
    assert set(plain.collectors[0].blind) == {*CLAIMS} - {"autotuning", "breaks", "recordings"}
    assert plain.settling[0].verdict == "not_observable"
    assert [row.python_dispatches for row in plain.intervals if row.kind == "step"] == [None] * 6


USER: Args = {"origin": "user", "identity": "f", "inputs": []}
NOBODYS: Args = {"origin": None, "identity": "", "inputs": None}


def test_what_was_seen_to_compile_stays_proven(tmp_path: Path) -> None:
    trace = traced(tmp_path, "something", compiles=(USER,) * 6)
    assert trace.settling[0].verdict == "not_settled"
    assert "not settled in 6 steps; at least 5 recompiles at steps 1-5" in headline(trace)


def test_a_compile_that_may_be_the_users_is_not_taken_for_a_librarys(tmp_path: Path) -> None:
    trace = traced(tmp_path, compiles=(NOBODYS, NOBODYS))
    assert trace.settling[0].settled_at_step == 2
    said = ["f was compiled in step 1; whose function it is could not be seen"]
    assert [row.text for row in trace.settling[0].causes] == said
    assert [(row.origin, row.inputs) for row in trace.compiles] == [(None, None)] * 2
    always = traced(tmp_path, compiles=(NOBODYS,) * 6)
    assert (always.settling[0].verdict, always.recompiles) == ("not_observable", [])
    assert "could not be seen" in headline(always)


def test_inputs_that_were_not_seen_are_no_equal_inputs(tmp_path: Path) -> None:
    trace = traced(tmp_path, compiles=(NOBODYS | {"identity": "f"},) * 2)
    [row] = trace.recompiles
    assert (row.cause, row.evidence) == ("unknown", ["what it was compiled for could not be seen"])
    assert judge([trace], parse({"forbid": "shape"})).word == "unknown"


@pytest.mark.parametrize(
    ("kind", "reason", "is_limit"),
    [
        ("RecompileLimitExceeded", "recompile_limit reached", True),
        ("CacheLimitExceeded", "cache_size_limit reached", True),
        ("FailOnRecompileLimitHit", "recompile_limit reached with one_graph=True.", True),
        ("Unsupported", "Dynamo recompile limit exceeded\n  Explanation: …", True),
        ("Unsupported", "Dynamo cache limit exceeded", True),
        ("Unsupported", "call_function in skip_files", False),
    ],
)
def test_every_version_s_words_for_its_limit_are_known(kind: str, reason: str, is_limit: bool) -> None:
    metadata = {"fail_type": kind, "fail_reason": reason}
    assert limits.is_limit(metadata, None) is is_limit
    assert limits.is_hard_limit(metadata, None) is kind.startswith("FailOn")
