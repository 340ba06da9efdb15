"""What a trace tells of what PyTorch runs: operators in each step, compiled regions tied to their compiles."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import generated_trace
import program
import pytest
from generated_trace import FIRST_STEP

import coldstep
from coldstep.model import Trace
from coldstep_collectors.profiler_session import Lines
from coldstep_collectors.torch.profiler import _Saw

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
    # in a process of its own: in a fork PyTorch's profiler has the main thread by the number of the parent's
    stacks = {"until-settled+2": None, "off": "torch"}
    return folder, {device: program.losses(TRAIN, folder, device, stack) for device, stack in stacks.items()}


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


@pytest.mark.timing
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
    ids = {trace.details[row.id].framework_id: row.id for row in trace.compiles}
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
    program.run(MANY, tmp_path, stack="torch")
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
    done = program.run(OWN_SESSION, tmp_path, env={"BEGIN": str(begin)}, stack="torch")
    assert json.loads(done.stdout) == 4 - begin
    trace = coldstep.load(tmp_path / "t.pftrace")
    [note] = trace.run.notes
    assert "torch.profiler session" in note
    assert {row.name: row.state for row in trace.collectors}["kineto"] == "attached"
    recorded = [row.step for row in trace.intervals if row.kind == "step" and "execute" in row.phases]
    assert recorded == list(range(begin))


SPAN = """
import os, threading, time
import coldstep, torch

over = threading.Event()

def elsewhere():
    with torch.profiler.record_function("epoch"):
        begun.set()
        over.wait()

with coldstep.trace("t.pftrace", device="all"):
    begun = threading.Event()
    other = os.environ["THREAD"] == "other"
    if other:
        thread = threading.Thread(target=elsewhere)
        thread.start()
        begun.wait()
    with torch.profiler.record_function("mine" if other else "epoch"):
        for n in range(4):
            with coldstep.step():
                torch.ones(3).cumsum(0)
                time.sleep(0.3)
    over.set()
    if other:
        thread.join()
    for n in range(4):
        with coldstep.step():
            torch.ones(3).cumsum(0)
"""


@pytest.mark.parametrize("thread", ["own", "other"])
def test_no_session_begins_within_a_span_that_an_earlier_one_saw_begin(tmp_path: Path, thread: str) -> None:
    """Where it does, the span's end is written to memory that PyTorch has freed; with large blocks given back at once,
    that crashes the program."""
    program.run(SPAN, tmp_path, env={"THREAD": thread, "MALLOC_MMAP_THRESHOLD_": "65536"})
    trace = coldstep.load(tmp_path / "t.pftrace")
    [note] = trace.run.notes
    assert re.search("ended early: a session ended within '(epoch|mine)'", note)
    recorded = [row.step for row in trace.intervals if row.kind == "step" and "execute" in row.phases]
    assert recorded == [0], "and what was seen until then is kept"


INTERRUPTED = """
import json, time
import coldstep, torch
from coldstep_collectors.torch._private import kineto

class Clock:  # Ctrl-C while a session ends
    def sleep(self, seconds):
        kineto.time = time
        raise KeyboardInterrupt

kineto.time = Clock()
seen = []
with coldstep.trace("t.pftrace", device="all"):
    for n in range(3):
        try:
            with coldstep.step():
                torch.ones(3).cumsum(0)
                time.sleep(0.3)
        except KeyboardInterrupt:
            seen.append(n)
print(json.dumps([seen, torch.autograd.profiler._is_profiler_enabled]))
"""


def test_ctrl_c_while_a_session_ends_reaches_the_program_and_leaves_no_profiler_on(tmp_path: Path) -> None:
    seen, is_on = json.loads(program.run(INTERRUPTED, tmp_path, stack="torch").stdout)
    assert (len(seen), is_on) == (1, False)  # in which step depends on how soon a busy machine comes to the first
    note, *_ = coldstep.load(tmp_path / "t.pftrace").run.notes
    assert "ended early, as the program was interrupted" in note


NESTED = """
import json, time
import torch

class Outer(torch.optim.SGD):
    def __init__(self, parameters):
        parameters = list(parameters)
        super().__init__(parameters, lr=0.0)
        self.inner = torch.optim.SGD(parameters, lr=0.1)

    def step(self):
        self.inner.step()
        self.inner.step()

model = torch.nn.Linear(8, 8)
compiled = torch.compile(model, backend="aot_eager")
optimizer = Outer(model.parameters())
for n in range(60):
    compiled(torch.ones(2 + (n % 20 == 1), 8)).sum().backward()  # settles only after a while
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.05)
"""


def test_an_optimizer_that_steps_another_is_left_before_a_session_ends(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(NESTED)
    command = [sys.executable, "-m", "coldstep", "run", "train.py"]
    env = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    trace = coldstep.load(tmp_path / "train.pftrace")
    assert not any("evice trace" in note for note in trace.run.notes)
    assert any("execute" in row.phases for row in trace.intervals if row.kind == "step")


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
            recorded = torch.autograd.profiler._is_profiler_enabled  # of all threads, which _profiler_enabled() is not
            child = os.fork() if n == 0 else None
            if child == 0:  # where a profiler would go on for ever
                os._exit(not recorded or torch.autograd.profiler._is_profiler_enabled)
            if child is not None:
                assert os.waitpid(child, 0)[1] == 0
with coldstep.trace("thread.pftrace", device="all"):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
"""


def test_steps_need_not_be_there_nor_on_the_main_thread_and_a_fork_is_not_recorded(tmp_path: Path) -> None:
    program.run(UNMARKED, tmp_path, stack="torch")
    names = ("none", "all", "thread", "forked")
    none, all_, thread, forked = (coldstep.load(tmp_path / f"{name}.pftrace") for name in names)
    assert none.run.notes == all_.run.notes == thread.run.notes == []
    assert [note.partition(" below")[0] for note in forked.run.notes] == ["1 other Python process ran"]
    assert none.device_traces == {}
    assert all_.device_traces[0, "kineto"].slices > 1
    assert [row.step for row in thread.intervals if row.kind == "step" and "execute" in row.phases] == [0, 1, 2]
    assert [row.step for row in forked.intervals if row.kind == "step" and "execute" in row.phases] == [0, 1]


@dataclass
class Seen:
    """An event as PyTorch 2.13 gives it. Of a GPU's work `resource` is the stream, of all else the thread."""

    called: str
    activity: str
    start: int
    end: int
    resource: int = 7
    correlation: int = 0

    def __getattr__(self, name: str) -> Any:
        gpu = self.activity in ("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation", "cuda_sync")
        of = {"name": self.called, "activity_type": self.activity, "start_ns": self.start, "device_index": 0}
        of |= {"duration_ns": self.end - self.start, "device_resource_id": self.resource, "is_hidden_event": False}
        of |= {"correlation_id": self.correlation, "device_type": SimpleNamespace(name="CUDA" if gpu else "CPU")}
        return lambda: of[name]


MAIN = threading.get_native_id()
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"
ON_A_GPU = [
    Seen("aten::copy_", "cpu_op", 0, 90, MAIN, 1),
    Seen("cudaMemcpyAsync", "cuda_runtime", 10, 80, MAIN, 101),
    Seen("Memcpy HtoD (Pageable -> Device)", "gpu_memcpy", 30, 70, correlation=101),
    Seen("Torch-Compiled Region: 0/0", "cpu_op", 100, 900, MAIN, 2),
    Seen("cudaEventQuery", "cuda_runtime", 110, 115, MAIN, 102),
    Seen("cudaGraphLaunch", "cuda_runtime", 120, 200, MAIN, 103),
    Seen("triton_poi_fused_add_0", "kernel", 300, 400, correlation=103),
    Seen("triton_poi_fused_mul_1", "kernel", 400, 500, correlation=103),
    Seen("triton_red_fused_sum_2", "kernel", 500, 600, correlation=103),
    Seen("nccl:all_reduce", "user_annotation", 210, 290, MAIN, 3),
    Seen("cudaLaunchKernelExC", "cuda_runtime", 220, 280, MAIN, 104),
    Seen("nccl:all_reduce", "gpu_user_annotation", 550, 950, 20),
    Seen(ALL_REDUCE, "kernel", 550, 950, 20, 104),
    Seen("triton_poi_fused_add_0", "kernel", 1000, 1010, correlation=99),  # launched before the session began
    Seen("triton_poi_fused_mul_1", "kernel", 1010, 1020, correlation=99),
    Seen("cudaDeviceSynchronize", "cuda_runtime", 1000, 1100, MAIN, 105),
    Seen("Context Sync", "cuda_sync", 1000, 1100, -1, 105),
    Seen("Instrumentation", "overhead", 1100, 1200, 0),
]


@pytest.fixture(scope="module")
def on_a_gpu(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace of what a GPU did in two sessions, in which CUDA counted its calls from one and the same number."""
    lines = Lines()
    for session in (1, 2):
        begin = FIRST_STEP + 2_000 * (session - 1)
        _Saw(ON_A_GPU).add_to(lines, lambda ns, begin=begin: begin + ns, session << 160)
    path = tmp_path_factory.mktemp("gpu") / "t.pftrace"
    generated_trace.write(path, steps=1, compiles=0, device=lines.trace("kineto"))
    return path


def test_each_stream_and_each_thread_of_a_gpus_has_a_line(engine: ModuleType, on_a_gpu: Path) -> None:
    engine.assert_clean(on_a_gpu)
    [rows] = engine.query(
        on_a_gpu,
        """select t.name as track, s.name, s.depth from slice s join track t on s.track_id = t.id
           join track g on t.parent_id = g.id where g.name = 'Device' order by t.name, s.ts, s.depth""",
    )
    tracks: dict[str, list[tuple[str, int]]] = {}
    for row in rows:
        tracks.setdefault(row["track"], []).append((row["name"], row["depth"]))
    graph = [("triton_poi_fused_add_0", 0), ("triton_poi_fused_mul_1", 0), ("triton_red_fused_sum_2", 0)]
    assert tracks == {
        "CUDA:0 stream 7": 2 * [("Memcpy HtoD (Pageable -> Device)", 0), *graph, *graph[:2]],
        "CUDA:0 stream 20": 2 * [("nccl:all_reduce", 0), (ALL_REDUCE, 1)],
        "calls: MainThread": 2 * [(name, 0) for name in ("cudaMemcpyAsync", "cudaGraphLaunch", "cudaLaunchKernelExC",
                                                         "cudaDeviceSynchronize")],
        "operators: MainThread": 2 * [("aten::copy_", 0), ("Torch-Compiled Region", 0), ("nccl:all_reduce", 1)],
    }  # fmt: skip


def test_one_arrow_leads_from_each_launch_to_the_first_of_what_it_launched(engine: ModuleType, on_a_gpu: Path) -> None:
    [arrows] = engine.query(
        on_a_gpu,
        """select o.name as call, i.name as began, i.ts - o.ts as after
           from flow f join slice o on f.slice_out = o.id join slice i on f.slice_in = i.id order by o.ts""",
    )
    assert [(row["call"], row["began"], row["after"]) for row in arrows] == 2 * [
        ("cudaMemcpyAsync", "Memcpy HtoD (Pageable -> Device)", 20),
        ("cudaGraphLaunch", "triton_poi_fused_add_0", 180),
        ("cudaLaunchKernelExC", ALL_REDUCE, 330),
    ]


def test_what_a_gpu_did_is_told_by_kind_and_is_the_execution(on_a_gpu: Path) -> None:
    step = next(row for row in coldstep.load(on_a_gpu).intervals if row.kind == "step")
    assert step.inside == {"device.copy": 80, "device.kernel": 640, "device.collective.all_reduce": 800}
    assert executed(ON_A_GPU) == [(30, 70), (300, 950), (1000, 1020)]


def test_operators_that_launch_kernels_are_no_execution_even_where_no_kernel_is_seen() -> None:
    host = [seen for seen in ON_A_GPU if seen.activity in ("cpu_op", "cuda_runtime")]
    assert executed(host) == []
    assert executed([seen for seen in host if "Launch" not in seen.called]) == [(0, 90)]


def executed(events: list[Seen]) -> list[tuple[int, int]]:
    lines = Lines()
    _Saw(events).add_to(lines, lambda ns: ns, 0)
    return lines.executed
