"""Every scenario program gets the cause, argument and both values that it provokes, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

import scenarios
from coldstep.model import Trace

MARKS = {
    "jax": pytest.mark.jax,
    "torch": pytest.mark.torch,
    "torch_xla": pytest.mark.torch_xla,
    "tensorflow": pytest.mark.tensorflow,
}
PROGRAMS = [
    pytest.param(path, marks=MARKS[path.parent.name], id=f"{path.parent.name}-{path.stem}")
    for path in scenarios.PROGRAMS
]
COLD = ("jax-shape", "jax-threads", "torch-nearest", "torch-optimizer_state", "torch_xla-shape", "tensorflow-shape")

ONLY_WHERE_SAID = {"stale_capture", "literal_equal", "second_trace", "unrolled", "thread_limit", "uncompiled",
                   "split_graph"}  # fmt: skip
"""Kinds of findings that a program has only where its first lines say so."""


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_report_says_what_the_program_provokes(program: Path, tmp_path: Path) -> None:
    _check(scenarios.read(program), scenarios.run(program, tmp_path))


@pytest.mark.parametrize("program", [each for each in PROGRAMS if each.id in COLD])
def test_a_process_that_imports_the_framework_itself_says_the_same(program: Path, tmp_path: Path) -> None:
    trace = scenarios.run(program, tmp_path, cold=True)
    _check(scenarios.read(program), trace)
    assert f"import.{program.parent.name}" in trace.intervals[0].phases


def _check(scenario: scenarios.Scenario, trace: Trace) -> None:
    assert scenarios.said(trace) == scenario.recompiles
    assert all(row.advice for row in trace.recompiles)
    words = trace.vocabulary
    assert {row.stack for row in trace.compiles} <= set(words.stacks)
    assert {finding.kind for finding in trace.findings} <= set(words.findings)
    phases = {name for row in trace.intervals for name in row.phases}
    phases |= {name for row in trace.compiles for segment in row.segments for name in segment.phases}
    assert {name for name in phases if not name.startswith("import.")} <= set(words.phases)
    says = scenario.says
    if settled := says.get("settles"):
        assert [str(trace.settling[0].settled_at_step)] == settled
    found, expected = {finding.kind for finding in trace.findings}, set(says.get("finding", []))
    assert expected <= found
    assert found & ONLY_WHERE_SAID == expected & ONLY_WHERE_SAID
    if patterns := says.get("pattern"):
        assert [row.pattern for row in trace.recompiles if row.pattern] == patterns
    if breaks := says.get("break"):
        assert [row.kind for row in trace.graph_breaks] == breaks
    if causes := says.get("settling"):
        assert [cause.cause or "-" for row in trace.settling for cause in row.causes] == causes
