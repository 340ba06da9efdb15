"""What a trace tells of what PyTorch runs: operators in each step, compiled regions tied to their compiles."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import program
import pytest

import coldstep
from coldstep.model import Trace

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

# the second size is compiled anew, for any size; the fourth step has the first size again
TRAIN = """
import json, os, threading
import coldstep
import torch

torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
compiled = torch.compile(model, backend="aot_eager")
losses = []
with coldstep.trace(os.environ["TRACE"], device=os.environ["DEVICE"]) as run:
    for n, size in enumerate((4, 5, 6, 6, 4, 4)):
        with coldstep.step():
            loss = compiled(torch.arange(8.0 * size).reshape(size, 8) / 50).square().sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
            if n == 3:
                other = threading.Thread(target=lambda: torch.ones(3).cumsum(0), name="helper")
                other.start()
                other.join()
print(json.dumps(losses))
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[float]]]:
    """The same training with device traces until it settles, and without."""
    folder = tmp_path_factory.mktemp("kineto")
    return folder, {device: program.losses(TRAIN, folder, device) for device in ("until-settled+2", "off")}


@pytest.fixture(scope="module")
def path(runs: tuple[Path, dict[str, list[float]]]) -> Path:
    return runs[0] / "until-settled+2.pftrace"


@pytest.fixture(scope="module")
def trace(path: Path) -> Trace:
    return coldstep.load(path)


@pytest.fixture(scope="module")
def pieces(engine: ModuleType, path: Path) -> list[dict[str, Any]]:
    """Each slice of the profiler's: its times, what it is, its compile, and its track."""
    [rows] = engine.query(
        path,
        """select s.name, s.category, s.ts, s.ts + s.dur as end, s.dur, s.depth, t.name as track,
               (select string_value from args a where a.arg_set_id = s.arg_set_id and key = 'debug.compile') as compile
           from slice s join track t on s.track_id = t.id join track g on t.parent_id = g.id
           where g.name = 'Device' order by s.ts""",
    )
    return list(rows)


def steps(trace: Trace) -> list[tuple[int, int]]:
    """Begin and end of each step on the trace's clock."""
    rows = [row for row in trace.intervals if row.kind == "step"]
    return [(row.start_ns + trace.origin_ns, row.start_ns + row.wall_ns + trace.origin_ns) for row in rows]


def test_training_is_the_same_with_and_without(runs: tuple[Path, dict[str, list[float]]]) -> None:
    folder, losses = runs
    assert losses["until-settled+2"] == losses["off"]
    with_, without = (coldstep.load(folder / f"{device}.pftrace") for device in ("until-settled+2", "off"))
    assert [(row.function, row.outcome) for row in with_.compiles] == [
        (row.function, row.outcome) for row in without.compiles
    ]


def test_perfetto_finds_nothing_wrong(engine: ModuleType, path: Path) -> None:
    engine.assert_clean(path)


def test_operators_lie_in_the_steps_that_ran_them(trace: Trace, pieces: list[dict[str, Any]]) -> None:
    bound = trace.device_traces[0, "kineto"].clock_bound_ns
    assert 0 < bound < 1_000_000
    assert len(pieces) == trace.device_traces[0, "kineto"].slices > 100
    for start, end in steps(trace)[:4]:  # two compile, and two more compile nothing
        mine = [row for row in pieces if start - bound <= row["ts"] and row["end"] <= end + bound]
        assert {"aten::addmm", "CompiledFunctionBackward", "Optimizer.step#SGD.step"} <= {row["name"] for row in mine}
        pieces = [row for row in pieces if row not in mine]
    assert pieces == []


def test_compiled_regions_are_tied_to_the_compile_that_made_them(trace: Trace, pieces: list[dict[str, Any]]) -> None:
    ids = {trace.framework_ids[row.id]: row.id for row in trace.compiles}
    assert sorted(ids) == ["0/0", "0/1"]
    for name in ("Torch-Compiled Region", "CompiledFunctionBackward"):
        tied = [row["compile"] for row in pieces if row["name"] == name]
        assert tied == [ids["0/0"], ids["0/1"], ids["0/1"], ids["0/1"]]


def test_an_arrow_leads_from_each_compiled_forward_to_its_backward(
    engine: ModuleType, path: Path, trace: Trace
) -> None:
    [arrows] = engine.query(
        path,
        """select o.name as forward, o.ts as ran, i.name as backward, i.ts as ran_back
           from flow f join slice o on f.slice_out = o.id join slice i on f.slice_in = i.id
           where o.name like 'CompiledFunction%' order by o.ts""",
    )
    assert {(row["forward"], row["backward"]) for row in arrows} == {("CompiledFunction", "CompiledFunctionBackward")}
    for (start, end), row in zip(steps(trace)[:4], arrows, strict=True):
        assert start < row["ran"] < row["ran_back"] < end


def test_what_the_compiler_runs_while_it_traces_is_not_taken_for_work(
    engine: ModuleType, path: Path, trace: Trace, pieces: list[dict[str, Any]]
) -> None:
    bound = trace.device_traces[0, "kineto"].clock_bound_ns
    [phases] = engine.query(path, "select ts, ts + dur as end from slice where category = 'dynamo.trace'")
    assert len(phases) >= 2
    for phase in phases:
        inside = [row for row in pieces if phase["ts"] + bound < row["ts"] and row["end"] < phase["end"] - bound]
        assert inside == []
    assert not any("(dynamo_timed)" in row["name"] or "_data" in row["name"] for row in pieces)


def test_other_threads_have_lines_of_their_own(pieces: list[dict[str, Any]]) -> None:
    tracks = {row["track"] for row in pieces}
    assert "operators: MainThread" in tracks
    [other] = tracks - {"operators: MainThread"}
    assert "aten::cumsum" in {row["name"] for row in pieces if row["track"] == other}


def test_operators_are_the_execution_that_the_ledger_could_not_see(
    engine: ModuleType, path: Path, trace: Trace, runs: tuple[Path, dict[str, list[float]]]
) -> None:
    recorded = [row for row in trace.intervals if row.kind == "step"]
    assert all(row.phases.get("execute", 0) > 0 for row in recorded[:4])
    assert not any("execute" in row.phases for row in recorded[4:])
    without = coldstep.load(runs[0] / "off.pftrace")
    assert not any("execute" in row.phases for row in without.intervals if row.label == "steady")
    [rows] = engine.query(
        path,
        "select s.name, sum(s.dur) as ns from slice s join track t on s.track_id = t.id"
        " where t.name = 'Step phases' and s.name in ('execute', 'unattributed') group by 1",
    )
    assert {row["name"]: row["ns"] for row in rows} == {
        "execute": sum(row.phases.get("execute", 0) for row in trace.intervals),
        "unattributed": sum(row.unattributed_ns for row in trace.intervals),
    }


MANY = """
import coldstep, torch

x, y = torch.ones(2), torch.ones(2)
with coldstep.trace("t.pftrace", device="all"):
    for n in range(3):
        with coldstep.step():
            for _ in range(100_000 if n else 1_000):
                x.add_(y)
"""


def test_100_000_operators_a_step_are_bounded_and_counted(tmp_path: Path, engine: ModuleType) -> None:
    program.run(MANY, tmp_path)
    trace = coldstep.load(tmp_path / "t.pftrace")
    found = trace.device_traces[0, "kineto"]
    assert found.slices == 50_000
    assert 201_000 <= found.slices + found.dropped <= 201_100  # and the marks of sessions that were dropped whole
    assert trace.run.dropped.bulk == found.dropped
    engine.assert_clean(tmp_path / "t.pftrace")
    last = steps(trace)[-1]
    [[kept]] = engine.query(tmp_path / "t.pftrace", "select min(ts) as ts from slice where name = 'aten::add_'")
    assert last[0] < kept["ts"], "the newest are kept"
    ledger = sum(len(row.phases) + 1 for row in trace.intervals)
    [[phases]] = engine.query(
        tmp_path / "t.pftrace",
        "select count(*) as n from slice s join track t on s.track_id = t.id where t.name = 'Step phases'",
    )
    assert phases["n"] < ledger + 3 * 130


OWN_SESSION = """
import json, os
import coldstep, torch

begin = int(os.environ["BEGIN"])
with coldstep.trace("t.pftrace", device="all" if begin else "until-settled+2"):
    own = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    for n in range(4):
        if n == begin:
            own.start()
        with coldstep.step():
            (torch.ones(n + 1) * 2).cumsum(0)
    own.stop()
assert "coldstep" not in torch.autograd.profiler._prepare_profiler.__module__
print(json.dumps([event.name() for event in own.profiler.kineto_results.events()].count("aten::cumsum")))
"""


@pytest.mark.parametrize("begin", [0, 2])
def test_the_programs_own_session_goes_before_ours_and_both_are_whole(tmp_path: Path, begin: int) -> None:
    done = program.run(OWN_SESSION, tmp_path, env={"BEGIN": str(begin)})
    assert json.loads(done.stdout) == 4 - begin
    trace = coldstep.load(tmp_path / "t.pftrace")
    [note] = trace.run.notes
    assert "torch.profiler session" in note
    assert {row.name: row.state for row in trace.collectors}["kineto"] == "attached"
    recorded = [row.step for row in trace.intervals if row.kind == "step" and "execute" in row.phases]
    assert recorded == list(range(begin))


UNMARKED = """
import os, threading
import coldstep, torch

def work():
    for n in range(3):
        with coldstep.step():
            torch.ones(3).cumsum(0)

with coldstep.trace("none.pftrace", device="until-settled+2"):
    torch.ones(3).cumsum(0)
with coldstep.trace("all.pftrace", device="all"):
    torch.ones(3).cumsum(0)
with coldstep.trace("forked.pftrace", device="all"):
    for n in range(2):
        with coldstep.step():
            torch.ones(3).cumsum(0)
            child = os.fork() if n == 0 else None
            if child == 0:  # where a profiler would go on for ever
                os._exit(torch.autograd._profiler_enabled())
            if child is not None:
                assert os.waitpid(child, 0)[1] == 0
with coldstep.trace("thread.pftrace", device="all"):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
"""


def test_steps_need_not_be_there_nor_on_the_main_thread_and_a_fork_is_not_recorded(tmp_path: Path) -> None:
    program.run(UNMARKED, tmp_path)
    names = ("none", "all", "thread", "forked")
    none, all_, thread, forked = (coldstep.load(tmp_path / f"{name}.pftrace") for name in names)
    assert none.run.notes == all_.run.notes == thread.run.notes == forked.run.notes == []
    assert none.device_traces == {}
    assert all_.device_traces[0, "kineto"].slices > 1
    assert [row.step for row in thread.intervals if row.kind == "step" and "execute" in row.phases] == [0, 1, 2]
    assert [row.step for row in forked.intervals if row.kind == "step" and "execute" in row.phases] == [0, 1]
