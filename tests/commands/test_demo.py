"""The demo, really run once: what its trace says must be true, complete, and the same in Perfetto as in the report."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import agreement
import program
import pytest
from playwright.sync_api import Browser

import coldstep
from coldstep.model import Interval, Trace

pytestmark = [pytest.mark.jax, pytest.mark.torch]

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"
NAMES = ("jax", "torch")

TRACKS = """
    create perfetto view events as
    select slice.ts, slice.dur, slice.name, track.name as track from slice join track on track_id = track.id;
    create perfetto view phases as select ts, dur, name from events where track = 'Step phases';
    create perfetto view steps as select ts, dur, name from events where track = 'Steps';
"""


@dataclass(slots=True, repr=False)
class Demo:
    path: Path
    output: str
    trace: Trace

    def steps(self, name: str) -> list[Interval]:
        return [interval for interval in self.trace.intervals if interval.kind == "step" and interval.name == name]


def losses(output: str) -> dict[str, list[str]]:
    return {name: re.findall(rf"^{name} step \d+: loss (\S+)$", output, re.MULTILINE) for name in NAMES}


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    folder = tmp_path_factory.mktemp("demo")
    done = subprocess.run([sys.executable, DEMO], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return Demo(folder / "demo.pftrace", done.stdout, coldstep.load(folder / "demo.pftrace"))


def ledger(intervals: list[Interval]) -> Counter[str]:
    total: Counter[str] = Counter()
    for interval in intervals:
        total.update(interval.phases)
        total["unattributed"] += interval.unattributed_ns
    return +total  # without what is zero


# ---- time


@pytest.mark.parametrize("name", NAMES)
def test_nearly_all_of_a_first_step_is_named(demo: Demo, name: str) -> None:
    [cost] = [cost for cost in demo.trace.cost if cost.name == name]
    assert cost.first_step.attributed_share >= 0.95
    assert cost.time_to_first_step_ns > cost.first_step.wall_ns


def test_phases_and_the_unattributed_are_the_wall_time_to_the_nanosecond(demo: Demo) -> None:
    for interval in demo.trace.intervals:
        assert sum(interval.phases.values()) + interval.unattributed_ns == interval.wall_ns
        assert min(interval.phases.values(), default=1) > 0
        assert interval.unattributed_ns >= 0


def test_intervals_cover_the_run_without_a_gap(demo: Demo) -> None:
    intervals = demo.trace.intervals
    [process] = demo.trace.processes
    assert [interval.index for interval in intervals] == list(range(len(intervals)))
    assert (intervals[0].kind, intervals[-1].kind) == ("before", "after")
    assert intervals[0].start_ns == process.start_ns == 0
    for before, after in pairwise(intervals):
        assert after.start_ns == before.start_ns + before.wall_ns
    assert sum(interval.wall_ns for interval in intervals) == process.wall_ns == demo.trace.run.wall_ns
    for name in NAMES:
        assert [interval.step for interval in demo.steps(name)] == list(range(8))
        assert all(interval.measures == "complete" for interval in demo.steps(name))


def test_what_the_first_steps_went_to(demo: Demo) -> None:
    jax, torch = (set(demo.steps(name)[0].phases) for name in NAMES)
    assert jax >= {"jax.trace", "jax.lower", "xla.compile", "execute"}
    assert torch >= {"dynamo.trace", "aot.joint", "inductor.lowering", "inductor.codegen", "inductor.cpp"}
    before = [interval for interval in demo.trace.intervals if interval.kind == "before"]
    assert "import.jax" in ledger(before)


# ---- compiles


def test_the_smaller_batch_is_a_recompile_by_shape(demo: Demo) -> None:
    found = {recompile.compile: recompile for recompile in demo.trace.recompiles}
    steps = {demo.trace.intervals[recompile.interval].name: recompile for recompile in found.values()}
    assert sorted(steps) == ["jax", "torch"]
    jax, torch = steps["jax"], steps["torch"]
    assert (jax.step, jax.cause, jax.argument) == (7, "shape", "batch['tokens']")
    assert (jax.before, jax.after) == ("i32[8,33]", "i32[5,33]")
    assert (torch.step, torch.cause, torch.argument) == (7, "shape", "tokens")
    assert torch.before is not None
    assert torch.after is not None
    assert torch.before.startswith("i64[8,32]")
    assert torch.after.startswith("i64[5,32]")
    for recompile in found.values():
        assert recompile.previous is not None
        assert 0 < recompile.cost_ns <= demo.trace.intervals[recompile.interval].wall_ns


def test_nothing_else_compiles_after_the_first_step(demo: Demo) -> None:
    origin = {compile_.id: compile_.origin for compile_ in demo.trace.compiles}
    for name in NAMES:
        later = [compile_id for interval in demo.steps(name)[1:] for compile_id in interval.compiles]
        [recompile] = [row for row in demo.trace.recompiles if demo.trace.intervals[row.interval].name == name]
        assert [compile_id for compile_id in later if origin[compile_id] == "user"] == [recompile.compile]
        assert set(later) == {recompile.compile}
        assert [interval.label for interval in demo.steps(name)] == ["first"] + 6 * ["steady"] + ["recompiled"]
        [settling] = [row for row in demo.trace.settling if row.name == name]
        assert (settling.verdict, settling.settled_at_step) == ("settled", 1)


def test_every_collector_attached_whole(demo: Demo) -> None:
    assert {row.name: (row.state, row.missing) for row in demo.trace.collectors} == {
        name: ("attached", [])
        for name in ("imports", "jax", "dynamo", "inductor", "xspace", "kineto", "outside", "process", "steps")
    } | {"torch_xla": ("absent", []), "tensorflow": ("absent", [])}
    assert demo.trace.run.ended == "ok"
    assert (demo.trace.run.dropped.ledger, demo.trace.run.dropped.bulk) == (0, 0)


# ---- Perfetto


def test_perfettos_engine_finds_nothing_wrong(demo: Demo, engine: ModuleType) -> None:
    engine.assert_clean(demo.path)


def test_sql_over_the_step_phases_gives_the_reports_figures(demo: Demo, engine: ModuleType) -> None:
    _, totals, shares, gaps = engine.query(
        demo.path,
        TRACKS,
        "select name, sum(dur) as ns from phases group by name having ns > 0",
        "select steps.name as step, phases.name as phase, sum(phases.dur) as ns from steps join phases"
        " on phases.ts >= steps.ts and phases.ts + phases.dur <= steps.ts + steps.dur group by 1, 2 having ns > 0",
        "select * from (select ts, lag(ts + dur) over (order by ts) as ended from phases where dur > 0)"
        " where ts != ended",
    )
    assert {row["name"]: row["ns"] for row in totals} == ledger(demo.trace.intervals)
    assert gaps == []
    per_step: dict[str, dict[str, int]] = {}
    for row in shares:
        per_step.setdefault(row["step"].rpartition(" ")[0], {})[row["phase"]] = row["ns"]
    assert per_step == {f"{name} {n}": ledger([step]) for name in NAMES for n, step in enumerate(demo.steps(name))}


def test_steps_are_named_by_what_happened_in_them(demo: Demo, engine: ModuleType) -> None:
    _, rows = engine.query(demo.path, TRACKS, "select name from steps order by ts")
    words = ["first"] + 6 * ["clean"] + ["compiled"]
    assert [row["name"] for row in rows] == [f"{name} {n} {word}" for name in NAMES for n, word in enumerate(words)]


# ---- as a guest


def test_the_losses_fall_and_are_bit_for_bit_those_without_coldstep(demo: Demo, tmp_path: Path) -> None:
    traced = losses(demo.output)
    for name in NAMES:
        numbers = [float(loss) for loss in traced[name]]
        assert len(numbers) == 8
        assert numbers == sorted(numbers, reverse=True)
    # nine digits tell any two float32 apart
    untraced = program.warm("torch", [str(DEMO), "--no-trace"], tmp_path)
    assert losses(untraced.stdout) == traced
    assert not (tmp_path / "demo.pftrace").exists()


def test_the_report_is_the_demos_and_imports_no_framework(demo: Demo) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "coldstep", "report", demo.path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "coldstep" in imported
    assert imported.isdisjoint({"jax", "jaxlib", "torch", "numpy"})
    assert done.stdout.strip()
    assert done.stdout.strip() in demo.output


def test_the_figures_agree_wherever_people_look(demo: Demo, browser: Browser, tmp_path: Path) -> None:
    said = agreement.in_json(demo.path)
    assert agreement.in_sql(demo.path) == said
    page = agreement.on_the_page(demo.path, tmp_path, browser)
    assert (page.steps, page.findings, page.compiles) == (said.steps, said.findings, said.compiles)
    xprof = agreement.in_xprof(demo.path, tmp_path)
    assert (xprof.steps, xprof.phases) == (said.steps, said.phases)
    assert sorted(xprof.findings) == sorted(said.findings)


def test_the_documented_queries_answer_the_three_questions(demo: Demo, engine: ModuleType) -> None:
    page = DEMO.parents[1] / "docs/how-to/perfetto.md"
    queries = re.findall(r"```sql\n(.*?)```", page.read_text(), re.DOTALL)
    cost, again, compiled = engine.query(demo.path, *queries)
    first = {f"{name} 0 first": ledger(demo.steps(name)[:1]) for name in NAMES}
    assert {(row["step"], row["phase"]): round(row["seconds"] * 1e9) for row in cost} == {
        (step, phase): ns for step, phases in first.items() for phase, ns in phases.items()
    }
    assert {(row["what"], row["advice"]) for row in again} == {
        (row.text, row.advice) for row in demo.trace.findings if row.kind == "recompile"
    }
    assert [row["step"] for row in compiled] == ["jax 0 first", "jax 7 compiled", "torch 0 first", "torch 7 compiled"]
