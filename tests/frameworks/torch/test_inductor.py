"""What a trace tells of Inductor: C++ compilation, disk caches, a dynamic backward, each graph's first execution."""

from __future__ import annotations

import json
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import program
import pytest

import coldstep
from coldstep.model import Compile, Trace

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

# two sizes: the second is compiled for any size, and its backward together with its forward
TRAIN = """
import contextlib, gc, json, os
import coldstep
import torch
import torch._functorch.config
import torch._inductor.config

trace, device = os.environ["TRACE"], os.environ["DEVICE"]
if trace == "off.pftrace":
    torch._inductor.config.fx_graph_cache = torch._functorch.config.enable_autograd_cache = False
active = coldstep.trace(trace, device=device) if trace else contextlib.nullcontext()

def f(x):
    return (x.sin() * x).sum()

torch.set_num_threads(1)  # so that sums do not depend on the order of threads
compiled = torch.compile(f)
results = []

def train(n):
    x = (torch.arange(n) / 7).requires_grad_()
    with coldstep.step("forward"):
        loss = compiled(x)
    with coldstep.step("backward"):
        loss.backward()
    results.append([loss.item().hex(), [g.hex() for g in x.grad.tolist()]])

with active:
    for n in (64, 64, 48, 48):
        train(n)

from torch._inductor.output_code import CompiledFxGraph
graphs = [thing for thing in gc.get_objects() if type(thing) is CompiledFxGraph and thing.current_callable]
assert len(graphs) == 4
ours = [thing for thing in (CompiledFxGraph.post_compile, *(graph.current_callable for graph in graphs))
        if thing.__module__.startswith("coldstep")]  # not by its file: a checkout may be in a folder of that name
assert ours == [], ours
print(json.dumps(results))
"""


def train(folder: Path, name: str | None, device: str = "off") -> list[Any]:
    environment = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "cache"), "TRACE": name or "", "DEVICE": device}
    results: list[Any] = json.loads(program.run(TRAIN, folder, env=environment, stack="torch").stdout)
    return results


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[Any]]]:
    """One cold run, the same again, once more with the caches off, and without a trace."""
    folder = tmp_path_factory.mktemp("inductor")
    return (
        folder,
        {
            "cold": train(folder, "cold.pftrace", device="all"),
            "warm": train(folder, "warm.pftrace"),
            "off": train(folder, "off.pftrace"),
            "untraced": train(folder, None),
        },
    )


def load(runs: tuple[Path, dict[str, list[Any]]], name: str) -> Trace:
    return coldstep.load(runs[0] / f"{name}.pftrace")


def caches(compile_: Compile, state: str) -> bool:
    """Whether both caches of graphs said `state`, and nothing else."""
    return {(row.layer, row.state) for row in compile_.caches if row.layer != "inductor.cpp"} == {
        ("aot.autograd", state),
        ("inductor.fx_graph", state),
    }


def segments(trace: Trace, compile_: Compile) -> list[tuple[str, str | None, int | None]]:
    return [
        (segment.part, trace.intervals[segment.interval].name, trace.intervals[segment.interval].step)
        for segment in compile_.segments
    ]


def test_results_are_bit_equal_with_and_without_a_trace(runs: tuple[Path, dict[str, list[Any]]]) -> None:
    results = runs[1]
    assert len(results["untraced"]) == 4
    assert results["cold"] == results["warm"] == results["off"] == results["untraced"]


def test_a_cold_compile_misses_the_caches_and_a_second_process_hits_them(
    runs: tuple[Path, dict[str, list[Any]]],
) -> None:
    cold, warm, off = (load(runs, name) for name in ("cold", "warm", "off"))
    for trace in (cold, warm, off):
        assert {c.name for c in trace.collectors if c.state == "attached"} >= {"dynamo", "imports", "inductor"}
        assert [c.reason for c in trace.compiles] == ["first", "recompile"]
    for compile_ in cold.compiles:
        assert compile_.outcome == "compiled"
        assert caches(compile_, "miss")
    for compile_ in warm.compiles:
        assert compile_.outcome == "cache_hit"
        assert caches(compile_, "hit")
        [saved] = [row.saved_ns for row in compile_.caches if row.layer == "aot.autograd"]
        assert saved is not None
        assert saved > 0
        [kernels] = [row for row in compile_.caches if row.layer == "inductor.cpp"]
        assert kernels.hits == kernels.count > 0
    for compile_ in off.compiles:
        assert compile_.outcome == "compiled"
        assert caches(compile_, "off")


def test_the_backward_is_a_part_of_its_forward_wherever_it_was_compiled(
    runs: tuple[Path, dict[str, list[Any]]],
) -> None:
    cold = load(runs, "cold")
    first, dynamic = cold.compiles
    assert segments(cold, first) == [("forward", "forward", 0), ("backward", "backward", 0)]
    assert segments(cold, dynamic) == [("forward", "forward", 2), ("backward", "forward", 2)]
    assert dynamic.wall_ns == dynamic.segments[0].wall_ns > dynamic.segments[1].wall_ns
    warm = load(runs, "warm")
    assert segments(warm, warm.compiles[0]) == [("forward", "forward", 0)]  # the backward came from disk with it


@pytest.mark.timing
def test_the_first_step_is_almost_all_in_named_phases(runs: tuple[Path, dict[str, list[Any]]]) -> None:
    first = next(interval for interval in load(runs, "cold").intervals if interval.kind == "step")
    assert {
        "dynamo.trace",
        "dynamo.guards",
        "aot.joint",
        "aot.partition",
        "inductor.passes",
        "inductor.lowering",
        "inductor.codegen",
        "inductor.cpp",
        "inductor.cache",
        "execute",
    } <= set(first.phases)
    assert max(first.phases, key=lambda phase: first.phases[phase]) == "inductor.cpp"
    assert first.unattributed_ns < 0.05 * first.wall_ns


def test_what_is_loaded_from_a_cache_is_not_generated(runs: tuple[Path, dict[str, list[Any]]]) -> None:
    first = next(interval for interval in load(runs, "warm").intervals if interval.kind == "step")
    assert "inductor.cache" in first.phases
    assert "inductor.codegen" not in first.phases


def test_compiler_threads_are_waited_for_and_belong_to_no_step(runs: tuple[Path, dict[str, list[Any]]]) -> None:
    steps = [interval for interval in load(runs, "cold").intervals if interval.kind == "step"]
    work = {(step.name, step.step): {wait.phase: wait.worker_ns for wait in step.waits} for step in steps}
    assert work["forward", 0].keys() - {"gc"} == {"inductor.cpp"}  # threads collect garbage, too
    assert work["forward", 0]["inductor.cpp"] > 0
    assert work["forward", 1] == {}


@pytest.mark.parametrize("name", ["off", "warm"])
def test_each_graph_is_seen_to_execute_for_the_first_time_and_never_again(
    runs: tuple[Path, dict[str, list[Any]]], name: str
) -> None:
    executed = [
        (interval.name, interval.step)
        for interval in load(runs, name).intervals
        if interval.kind == "step" and "execute" in interval.phases
    ]
    assert executed == [("forward", 0), ("backward", 0), ("forward", 2), ("backward", 2)]


def test_each_of_the_two_collectors_works_alone(tmp_path: Path) -> None:
    import torch._dynamo

    for names in (["inductor"], ["dynamo"]):
        torch._dynamo.reset()
        with coldstep.trace(tmp_path / "t.pftrace", collectors=names), coldstep.step():
            torch.compile(lambda x: x + 1, backend="aot_eager")(torch.ones(2))
        trace = coldstep.load(tmp_path / "t.pftrace")
        [step] = [interval for interval in trace.intervals if interval.kind == "step"]
        assert {"dynamo.trace", "dynamo.guards", "aot.joint"} <= set(step.phases)
        assert len(trace.compiles) == (names == ["dynamo"])


@pytest.mark.parametrize(
    ("kernels", "phase"),
    [(["cpp_fused_add_0"], "inductor.cpp"), (["triton_poi_fused_add_0", "cpp_x"], "inductor.triton")],
)
def test_the_wait_for_workers_is_named_by_the_kernels_waited_for(
    tmp_path: Path, kernels: list[str], phase: str
) -> None:
    from torch._inductor.async_compile import AsyncCompile

    with coldstep.trace(tmp_path / "t.pftrace", collectors=["inductor"]), coldstep.step():
        done: Future[None] = Future()
        done.set_result(None)
        AsyncCompile().wait(dict.fromkeys(kernels, done))
    [step] = [interval for interval in coldstep.load(tmp_path / "t.pftrace").intervals if interval.kind == "step"]
    assert set(step.phases) == {phase}


def test_tuning_for_a_cpu_is_no_triton() -> None:
    from coldstep_collectors.torch._private import spans

    assert spans._phase("GraphLowering.codegen", []) == "inductor.codegen"
    assert spans._phase("mm_template_autotuning", []) == "autotune"
    assert spans._phase("compile_file", ["mm_template_autotuning"]) == "autotune"
    assert spans._phase("benchmark_fused_nodes", []) is None


def test_a_program_that_tunes_nothing_pays_for_no_autotuning(tmp_path: Path) -> None:
    """PyTorch's cache of choices reads all of Triton's files as it is made, and asks for the device."""
    program.run(
        "import coldstep\n"
        "with coldstep.trace('run.pftrace', device='off'):\n"
        "    from torch._inductor import select_algorithm\n"
        "    assert select_algorithm._ALGORITHM_SELECTOR_CACHE is None\n",
        tmp_path,
        stack="torch",
    )
    trace = coldstep.load(tmp_path / "run.pftrace")
    assert [row.missing for row in trace.collectors if row.name == "inductor"] == [[]]


DAMAGED = """
import glob, os
import coldstep
import torch

for name in ("filled", "broken", "again"):
    for path in glob.glob("cache/fxgraph/*/*/*") if name == "broken" else ():
        open(path, "w").write("broken")
    torch._dynamo.reset()
    with coldstep.trace(f"{name}.pftrace", collectors=["dynamo", "inductor"]):
        torch.compile(lambda x: x @ x)(torch.ones(4, 4))  # no C++ to be compiled
"""


def test_a_graph_that_could_not_be_loaded_is_told_apart_from_none(tmp_path: Path) -> None:
    program.run(DAMAGED, tmp_path, env={"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}, stack="torch")
    states = {}
    for name in ("filled", "broken", "again"):
        [row] = coldstep.load(tmp_path / f"{name}.pftrace").compiles
        states[name] = {cache.layer: (cache.state, cache.written) for cache in row.caches}
    layers = "aot.autograd", "inductor.fx_graph"
    assert states == {
        "filled": dict.fromkeys(layers, ("miss", True)),
        "broken": dict.fromkeys(layers, ("unreadable", True)),
        "again": {"aot.autograd": ("hit", None), "inductor.fx_graph": ("hit", None)},
    }


ELSEWHERE = """
import coldstep
import torch
import torch._functorch.config
import torch._inductor.config as config

torch._functorch.config.enable_autograd_cache = False
for name in ("local", "remote"):
    torch._dynamo.reset()
    config.fx_graph_cache, config.fx_graph_remote_cache = name == "local", name == "remote"
    with coldstep.trace(f"{name}.pftrace", collectors=["dynamo", "inductor"]):
        torch.compile(lambda x: x @ x)(torch.ones(4, 4))  # no C++ to be compiled
"""


def test_an_entry_where_nobody_looks_is_not_one_that_could_not_be_loaded(tmp_path: Path) -> None:
    program.run(ELSEWHERE, tmp_path, env={"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}, stack="torch")
    for name in ("local", "remote"):
        [row] = coldstep.load(tmp_path / f"{name}.pftrace").compiles
        assert ("inductor.fx_graph", "miss") in {(cache.layer, cache.state) for cache in row.caches}
