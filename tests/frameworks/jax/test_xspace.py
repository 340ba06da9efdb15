"""What a trace tells of XLA's inside and of what it runs: passes under each compile, kernels in each step."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import generated_trace
import program
import pytest
from generated_trace import FIRST_STEP

import coldstep
from coldstep.model import Trace
from coldstep_collectors.profiler_session import Lines
from coldstep_collectors.xla import xplane
from coldstep_collectors.xla.profiler import _add, _walk

jax = pytest.importorskip("jax")
pytestmark = pytest.mark.jax

TRAIN = """
import json, os
os.environ["XLA_FLAGS"] = ""  # what XLA does inside is as everybody has it
import coldstep
import jax, jax.numpy as jnp

@jax.jit
def train(weights, x):
    def loss(weights):
        h = x
        for w in weights:
            h = jax.nn.gelu(h @ w)
        return h.mean()
    value, gradients = jax.value_and_grad(loss)(weights)
    return [w - 0.1 * g for w, g in zip(weights, gradients)], value

weights = [jax.random.normal(jax.random.key(i), (48, 48)) for i in range(3)]
batch, smaller = jnp.ones((32, 48)), jnp.ones((7, 48))
losses = []
with coldstep.trace(os.environ["TRACE"], device=os.environ["DEVICE"]) as run:
    for n in range(6):
        with coldstep.step():
            weights, value = train(weights, smaller if n in (1, 5) else batch)
            coldstep.wait(value)
        losses.append(float(value))
print(json.dumps(losses))
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[float]]]:
    """The same training with device traces until it settles, and without."""
    folder = tmp_path_factory.mktemp("xspace")
    return folder, {device: program.losses(TRAIN, folder, device, "jax") for device in ("until-settled+2", "off")}


@pytest.fixture(scope="module")
def path(runs: tuple[Path, dict[str, list[float]]]) -> Path:
    return runs[0] / "until-settled+2.pftrace"


@pytest.fixture(scope="module")
def trace(path: Path) -> Trace:
    return coldstep.load(path)


@pytest.fixture(scope="module")
def pieces(engine: ModuleType, path: Path) -> list[dict[str, Any]]:
    """Each slice of a profiler's: its times, what it counts as, its compile, and the group of tracks it is in."""
    [rows] = engine.query(
        path,
        """select s.name, s.category, s.ts, s.ts + s.dur as end, s.dur, s.depth, g.name as "group",
               (select string_value from args a where a.arg_set_id = s.arg_set_id and key = 'debug.compile') as compile
           from slice s join track t on s.track_id = t.id join track g on t.parent_id = g.id
           where g.name in ('XLA compiler', 'Device')""",
    )
    return list(rows)


def test_training_is_the_same_with_and_without(runs: tuple[Path, dict[str, list[float]]]) -> None:
    folder, losses = runs
    assert losses["until-settled+2"] == losses["off"]
    with_, without = (coldstep.load(folder / f"{device}.pftrace") for device in ("until-settled+2", "off"))
    assert [row.function for row in with_.compiles] == [row.function for row in without.compiles]
    assert without.device_traces == {}


def test_perfetto_finds_nothing_wrong(engine: ModuleType, path: Path) -> None:
    engine.assert_clean(path)


@pytest.mark.timing
def test_every_pass_lies_in_the_xla_phase_of_its_compile(
    engine: ModuleType, path: Path, trace: Trace, pieces: list[dict[str, Any]]
) -> None:
    [phases] = engine.query(
        path,
        """select s.ts, s.ts + s.dur as end, p.name as function, a.string_value as compile
           from slice s join slice p on p.id = s.parent_id
           join args a on a.arg_set_id = p.arg_set_id and a.key = 'debug.compile' where s.name = 'xla.compile'""",
    )
    bound = trace.device_traces[0, "xspace"].clock_bound_ns
    assert 0 < bound < 1_000_000
    of = {row["compile"]: row for row in phases}
    pieces = [row for row in pieces if row["group"] == "XLA compiler"]
    assert {row["category"] for row in pieces} == {"xla.compile", "xla.pass", "xla.codegen"}
    assert {"fusion", "layout-assignment", "algsimp", "dce"} <= {
        r["name"] for r in pieces if r["category"] == "xla.pass"
    }
    outermost = [row for row in pieces if row["depth"] == 0]
    for row in outermost:
        phase = of[row["compile"]]
        assert phase["ts"] - bound <= row["ts"] <= row["end"] <= phase["end"] + bound
    # one whole compilation by XLA per program of a step that was recorded, and no other
    compilations = [row["compile"] for row in outermost if row["name"] == "PjRtCpuClient::Compile"]
    recorded = {c for row in trace.intervals if row.kind == "step" and (row.step or 0) < 4 for c in row.compiles}
    assert sorted(compilations) == sorted(recorded)
    assert len(compilations) >= 2


def test_inside_adds_up_to_what_is_drawn(trace: Trace, pieces: list[dict[str, Any]]) -> None:
    for prefix, group in (("xla.", "XLA compiler"), ("device.", "Device")):
        outermost = [row for row in pieces if row["group"] == group and row["depth"] == 0]
        drawn = sum(row["dur"] for row in outermost if row["category"] != "runtime")
        told = sum(ns for row in trace.intervals for name, ns in row.inside.items() if name.startswith(prefix))
        assert drawn == told > 0


def test_it_is_recorded_until_two_steps_in_a_row_compiled_nothing(trace: Trace) -> None:
    steps = {row.step: row for row in trace.intervals if row.kind == "step"}
    assert any(name.startswith("xla.pass.") for name in steps[0].inside)
    assert any(name.startswith("xla.pass.") for name in steps[1].inside)
    for step in (2, 3):  # compiled nothing; 4 and 5 come after the second such step
        assert set(steps[step].inside) == {"device.kernel"}
    assert steps[4].inside == steps[5].inside == {}


def test_kernels_lie_in_the_steps_that_ran_them(trace: Trace, pieces: list[dict[str, Any]]) -> None:
    bound = trace.device_traces[0, "xspace"].clock_bound_ns
    kernels = [row for row in pieces if row["group"] == "Device"]
    spans = [(row.start_ns + trace.origin_ns, row.wall_ns) for row in trace.intervals if row.kind == "step"][:4]
    for start, wall in spans:
        mine = [row for row in kernels if start - bound <= row["ts"] and row["end"] <= start + wall + bound]
        assert any(re.match(r"(dot|ynn_fusion)", row["name"]) for row in mine)
        kernels = [row for row in kernels if row not in mine]
    assert kernels == []


def test_an_arrow_leads_from_the_call_to_the_first_kernel_of_each_execution(
    engine: ModuleType, path: Path, trace: Trace
) -> None:
    [arrows] = engine.query(
        path,
        """select o.name as call, o.ts as called, o.category as called_as, i.ts as began, i.category as began_as
           from flow f join slice o on f.slice_out = o.id join slice i on f.slice_in = i.id
           where o.category = 'runtime' order by o.ts""",
    )
    bound = trace.device_traces[0, "xspace"].clock_bound_ns
    for row in trace.intervals:
        if row.kind == "step" and (row.step or 0) < 4:
            start = row.start_ns + trace.origin_ns
            mine = [arrow for arrow in arrows if start - bound <= arrow["called"] <= start + row.wall_ns + bound]
            assert mine, row.step
            assert all("Execut" in arrow["call"] and arrow["began_as"] == "kernel" for arrow in mine)
            assert all(arrow["called"] < arrow["began"] <= start + row.wall_ns + bound for arrow in mine)


def test_the_step_phases_are_the_ledger_still(engine: ModuleType, path: Path, trace: Trace) -> None:
    [rows] = engine.query(
        path,
        "select s.name, sum(s.dur) as ns from slice s join track t on s.track_id = t.id"
        " where t.name = 'Step phases' group by 1",
    )
    told: dict[str, int] = {}
    for interval in trace.intervals:
        assert sum(interval.phases.values()) + interval.unattributed_ns == interval.wall_ns
        for phase, ns in [*interval.phases.items(), ("unattributed", interval.unattributed_ns)]:
            told[phase] = told.get(phase, 0) + ns
    assert {row["name"]: row["ns"] for row in rows} == {name: ns for name, ns in told.items() if ns}


def test_the_report_lists_the_ten_costliest_passes(trace: Trace) -> None:
    from coldstep_viewers.report.terminal import render

    passes: dict[str, int] = {}
    for interval in trace.intervals:
        for name, ns in interval.inside.items():
            if name.startswith("xla.pass."):
                passes[name.removeprefix("xla.pass.")] = passes.get(name.removeprefix("xla.pass."), 0) + ns
    costliest = sorted(passes, key=lambda name: -passes[name])[:10]
    section = render(trace, every=True).split("Inside XLA")[1].split("\n\n")[0]
    assert re.findall(r"^    (\S+) ", section, re.MULTILINE) == costliest
    assert re.search(r"profiler xspace: [\d,]+ slices, in their place to within \d", section)


def test_a_whole_session_is_read_as_jax_reads_it() -> None:
    from jaxlib import _profiler

    options = _profiler.ProfileOptions()
    options.python_tracer_level = 0
    session = _profiler.ProfilerSession(options)
    with jax.profiler.TraceAnnotation("ours", number=-7, word="text"):
        jax.jit(lambda x: x * 2 + 1)(jax.numpy.ones(8)).block_until_ready()
    raw = session.stop()
    theirs = [
        (plane.name, line.name, event.name, event.start_ns, event.end_ns, dict(event.stats))
        for plane in jax.profiler.ProfileData.from_serialized_xspace(raw).planes
        for line in plane.lines
        for event in line.events
    ]
    ours = [
        (line.plane, line.name, event.name, event.start_ns, event.end_ns, event.stats)
        for line in xplane.lines(raw, 1 << 20)
        for event in line.events
    ]
    assert len(ours) == len(theirs) == xplane.count(raw) > 100
    for our, their in zip(ours, theirs, strict=True):
        assert our[:3] == their[:3]
        assert our[3] == pytest.approx(their[3], abs=1)
        assert our[4] == pytest.approx(their[4], abs=1)
        assert our[5] == their[5]
    assert any(row[5].get("word") == "text" for row in ours)
    few, all_ = list(xplane.lines(raw, 100, ("ours",))), list(xplane.lines(raw, 1 << 20))
    assert 95 <= sum(len(line.events) for line in few) <= 105
    assert sum(line.dropped + len(line.events) for line in few) == len(ours)
    [old] = [event for line in few for event in line.events if event.name == "ours"]
    latest = [event.start_ns for line in few for event in line.events if event is not old]
    assert old.start_ns < min(latest)
    assert len(latest) == sum(event.start_ns >= min(latest) for line in all_ for event in line.events)
    with pytest.raises(ValueError, match="cut"):
        list(xplane.lines(raw[:-3], 10))


def event(name: str, start: int, end: int, **stats: str) -> xplane.Event:
    return xplane.Event(name, start, end, dict(stats))


def test_a_profiler_that_would_import_tensorflow_is_not_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import jax  # noqa: F401
    from jaxlib import _profiler

    class OfJaxlib07:
        host_tracer_level = 2

    monkeypatch.setattr(_profiler, "ProfileOptions", OfJaxlib07)
    monkeypatch.setattr(_profiler, "ProfilerSession", lambda *_: pytest.fail("it was started"))
    with coldstep.trace(tmp_path / "run.pftrace", collectors="xspace"), coldstep.step():
        pass
    (collector,) = coldstep.load(tmp_path / "run.pftrace").collectors
    assert collector.state == "partial"
    assert "imports TensorFlow" in collector.missing[0]


def test_what_encloses_an_event_says_what_it_is() -> None:
    pieces = _walk(
        [
            event("PjRtCpuClient::Compile", 0, 100),
            event("fold (jit_f)", 10, 40, module="jit_f"),
            event("RunInvariantCheckers", 10, 11),
            event("copy-insertion", 20, 35),
            event("HloAliasAnalysis", 21, 30),
            event("Codegen", 50, 90),
            event("JitCompiler::Compile", 50, 90),
            event("FusionCompiler::Compile", 50, 60, module="f"),
            event("CSEPass", 51, 52),
            event("PjitFunction(f)", 200, 300),
        ]
    )
    assert [(piece.name, piece.category, piece.hidden) for piece in pieces] == [
        ("PjRtCpuClient::Compile", "xla.compile", False),
        ("fold", "xla.compile", False),
        ("RunInvariantCheckers", "xla.pass", False),
        ("copy-insertion", "xla.pass", False),
        ("HloAliasAnalysis", "xla.pass", True),
        ("Codegen", "xla.compile", False),
        ("JitCompiler::Compile", "xla.compile", False),
        ("FusionCompiler::Compile", "xla.codegen", False),
        ("CSEPass", "xla.pass", False),
        ("PjitFunction(f)", None, False),
    ]


OWN_SESSION = """
import glob, json, os, tempfile
import coldstep
import jax, jax.numpy as jnp
from coldstep_collectors.xla import xplane

folder = tempfile.mkdtemp()
f = jax.jit(lambda x: jnp.tanh(x @ x).sum())
begin = int(os.environ["BEGIN"])
with coldstep.trace("t.pftrace", device="until-settled+2"):
    for n in range(4):
        if n == begin:
            jax.profiler.start_trace(folder)
        with coldstep.step():
            coldstep.wait(f(jnp.ones((16 + n, 16 + n))))
    jax.profiler.stop_trace()
[file] = glob.glob(folder + "/**/*.xplane.pb", recursive=True)
with open(file, "rb") as opened:
    names = [event.name for line in xplane.lines(opened.read(), 1 << 20) for event in line.events]
assert jax.profiler.start_trace.__module__ == "jax._src.profiler"
from jaxlib import _profiler
assert isinstance(_profiler.ProfilerSession, type)
print(json.dumps(names.count("PjRtCpuClient::Compile")))
"""


@pytest.mark.parametrize("begin", [0, 2])
def test_the_programs_own_session_goes_before_ours_and_both_are_whole(tmp_path: Path, begin: int) -> None:
    done = program.run(OWN_SESSION, tmp_path, env={"BEGIN": str(begin)}, stack="jax")
    trace = coldstep.load(tmp_path / "t.pftrace")
    [note] = trace.run.notes
    assert "jax.profiler session" in note
    assert {row.name: row.state for row in trace.collectors}["xspace"] == "attached"
    steps = [row for row in trace.intervals if row.kind == "step"]
    recorded = [row.step for row in steps if "xla.codegen" in row.inside]
    assert recorded == list(range(begin))
    compiled = sum(len(row.compiles) for row in trace.intervals[2 * begin :])
    assert json.loads(done.stdout) == compiled


def written(folder: Path, *xspaces: str) -> Path:
    """A trace of what the collector makes of sessions, one after the other, each an XSpace as protobuf's text."""
    lines = Lines()
    for at, text in enumerate(xspaces):
        begin = FIRST_STEP + 1_000 * at
        for line in xplane.lines(jax.profiler.ProfileData.text_proto_to_serialized_xspace(text), 100):
            _add(lines, line, lambda ns, begin=begin: begin + ns, (at + 1) << 48)
    path = folder / "t.pftrace"
    generated_trace.write(path, steps=1, compiles=0, device=lines.trace("xspace"))
    return path


def drawn(engine: ModuleType, path: Path) -> dict[str, list[str]]:
    """By track of a device's or a thread's, what is on it."""
    engine.assert_clean(path)
    [rows] = engine.query(
        path,
        """select t.name as track, s.name from slice s join track t on s.track_id = t.id
           join track g on t.parent_id = g.id where g.name = 'Device' order by t.name, s.ts""",
    )
    tracks: dict[str, list[str]] = {}
    for row in rows:
        tracks.setdefault(row["track"], []).append(row["name"])
    return tracks


# as XLA's sources write it: calls of the driver on lines of their threads', work on a line per stream
GPU = """
planes {
  name: "/host:CPU"
  lines {
    name: "Host Threads/%(thread)d"
    events { metadata_id: 1 offset_ps: 10000 duration_ps: 30000 stats { metadata_id: 1 uint64_value: 7 } }
    events { metadata_id: 2 offset_ps: 100000 duration_ps: 80000 stats { metadata_id: 1 uint64_value: 8 } }
  }
  event_metadata { key: 1 value { id: 1 name: "cuLaunchKernel" } }
  event_metadata { key: 2 value { id: 2 name: "cuGraphLaunch (CudaGraph:%(graph)d)" } }
  stat_metadata { key: 1 value { id: 1 name: "correlation_id" } }
}
planes {
  name: "/device:GPU:0"
  lines {
    name: "Stream #14(%(kinds)s)"
    events { metadata_id: 1 offset_ps: 50000 duration_ps: 50000 stats { metadata_id: 1 uint64_value: 7 } }
    events { metadata_id: 1 offset_ps: 200000 duration_ps: 50000 stats { metadata_id: 1 uint64_value: 8 } }
    events { metadata_id: 2 offset_ps: 250000 duration_ps: 50000 stats { metadata_id: 1 uint64_value: 8 } }
    events { metadata_id: 3 offset_ps: 300000 duration_ps: 50000 stats { metadata_id: 1 uint64_value: 9 } }
  }
  lines { name: "CUPTI overhead" events { metadata_id: 4 offset_ps: 0 duration_ps: 900000 } }
  event_metadata { key: 1 value { id: 1 name: "loop_add_fusion" } }
  event_metadata { key: 2 value { id: 2 name: "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)" } }
  event_metadata { key: 3 value { id: 3 name: "MemcpyD2H" } }
  event_metadata { key: 4 value { id: 4 name: "BUFFER_FLUSH" } }
  stat_metadata { key: 1 value { id: 1 name: "correlation_id" } }
}
planes {
  name: "/device:CUSTOM:MOSAIC:0"
  lines { name: "a library's own" events { metadata_id: 1 offset_ps: 0 duration_ps: 900000 } }
}
"""


WITHOUT_GRAPHS = """
import coldstep, jax

with coldstep.trace("t.pftrace"), coldstep.step():
    with jax.profiler.TraceAnnotation("WARNING: CommandBuffer disabled when profiling"):  # as XLA marks it on a GPU
        jax.jit(lambda x: x + 1)(1.0)
"""


def test_that_xla_records_no_cuda_graph_meanwhile_is_said(tmp_path: Path) -> None:
    program.run(WITHOUT_GRAPHS, tmp_path, stack="jax")
    [note] = coldstep.load(tmp_path / "t.pftrace").run.notes
    assert "CUDA graph" in note
    assert 'device="off"' in note


def test_a_gpu_has_a_line_per_stream_and_an_arrow_per_launch(tmp_path: Path, engine: ModuleType) -> None:
    main = threading.get_native_id()
    path = written(
        tmp_path,
        GPU % {"thread": main, "graph": 3, "kinds": "Compute"},
        GPU % {"thread": main, "graph": 4, "kinds": "MemcpyD2H,Compute"},
    )
    nccl = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"
    assert drawn(engine, path) == {
        "GPU:0 Stream #14": 2 * ["loop_add_fusion", "loop_add_fusion", nccl, "MemcpyD2H"],
        "calls: MainThread": 2 * ["cuLaunchKernel", "cuGraphLaunch"],
    }
    [arrows] = engine.query(
        path,
        """select o.name as call, i.name as began, i.ts - o.ts as after
           from flow f join slice o on f.slice_out = o.id join slice i on f.slice_in = i.id order by o.ts""",
    )
    launches = [("cuLaunchKernel", "loop_add_fusion", 40), ("cuGraphLaunch", "loop_add_fusion", 100)]
    assert [(row["call"], row["began"], row["after"]) for row in arrows] == 2 * launches
    step = next(row for row in coldstep.load(path).intervals if row.kind == "step")
    assert step.inside == {"device.kernel": 200, "device.collective.all_reduce": 100, "device.copy": 100}


# names as in a trace of a TPU's: an operation is named by its whole instruction, and is called something shorter
TPU = """
planes {
  name: "/device:TPU:0"
  lines { name: "Steps" events { metadata_id: 1 offset_ps: 0 duration_ps: 900000 } }
  lines { name: "XLA Modules" events { metadata_id: 1 offset_ps: 0 duration_ps: 900000 } }
  lines {
    name: "XLA Ops"
    events { metadata_id: 2 offset_ps: 0 duration_ps: 300000 }
    events { metadata_id: 3 offset_ps: 300000 duration_ps: 400000 }
  }
  lines { name: "Async XLA Ops" events { metadata_id: 4 offset_ps: 100000 duration_ps: 700000 } }
  lines { name: "XLA TraceMe" events { metadata_id: 1 offset_ps: 0 duration_ps: 900000 } }
  event_metadata { key: 1 value { id: 1 name: "jit_train(9646411105960254074)" } }
  event_metadata { key: 2 value { id: 2 name: "%fusion.3 = f32[8]{0} fusion(f32[8]{0} %p)" display_name: "fusion.3" } }
  event_metadata { key: 3 value { id: 3 name: "%all-reduce = f32[8]{0} all-reduce()" display_name: "all-reduce" } }
  event_metadata { key: 4 value { id: 4 name: "%copy-start = (f32[8]{0}) copy-start()" display_name: "async-copy" } }
}
"""


def test_a_tpus_operations_have_their_short_names_and_are_told_apart(tmp_path: Path, engine: ModuleType) -> None:
    path = written(tmp_path, TPU)
    assert drawn(engine, path) == {
        "TPU:0 XLA Modules": ["jit_train"],
        "TPU:0 XLA Ops": ["fusion.3", "all-reduce"],
        "TPU:0 Async XLA Ops": ["async-copy"],
    }
    step = next(row for row in coldstep.load(path).intervals if row.kind == "step")
    assert step.inside == {"device.kernel": 300, "device.collective.all_reduce": 400, "device.copy": 700}
