"""The stack wars, on their smallest model: every stack trains, and its first steps are told and right."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import coldstep
from coldstep.model import Trace

pytestmark = pytest.mark.torch_xla

ROOT = Path(__file__).parent.parent
STACKS = ("jax", "inductor", "torch_xla", "openxla")


@pytest.fixture(scope="module")
def war(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Trace]:
    path = tmp_path_factory.mktemp("war") / "war.pftrace"
    command = [sys.executable, "-m", "examples.stack_wars", "-o", str(path), "--models", "ffn", "--layers", "1"]
    done = subprocess.run([*command, "--steps", "5"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout, coldstep.load(path)


def test_each_stack_settles_when_it_should(war: tuple[str, Trace]) -> None:
    _, trace = war
    settled = {row.name.removeprefix("ffn "): row.settled_at_step for row in trace.settling if row.by == "step"}
    assert settled == {"jax": 1, "inductor": 1, "torch_xla": 2, "openxla": 2}
    causes = {row.name: {cause.cause for cause in row.causes} for row in trace.settling}
    assert causes["ffn torch_xla"] == {"optimizer_state"}
    assert "optimizer_state" in causes["ffn openxla"]


def test_the_numbers_and_their_reasons_are_printed(war: tuple[str, Trace]) -> None:
    printed, trace = war
    for stack in STACKS:
        [line] = [line for line in printed.splitlines() if line.startswith(f"{stack} ")]
        first = next(row for row in trace.intervals if row.name == f"ffn {stack}" and row.step == 0)
        assert f"First {first.wall_ns / 1e6:>9,.1f} ms   Second" in line
    assert printed.count("Second: compiled nothing") == 2
    assert "new inputs: 4 tensors of optimizer state, of 2 parameters" in " ".join(printed.split())


@pytest.mark.timing
def test_every_collector_works_on_this_torch(war: tuple[str, Trace]) -> None:
    _, trace = war
    states = {row.name: row.state for row in trace.collectors}
    assert {states[name] for name in ("imports", "jax", "dynamo", "inductor", "torch_xla")} == {"attached"}
    assert "failed" not in states.values()
    for row in trace.intervals:
        if row.kind == "step" and row.step == 0:
            assert row.unattributed_ns < 0.1 * row.wall_ns
