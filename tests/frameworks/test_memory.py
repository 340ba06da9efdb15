"""Out of memory, for real: a child under a limit, whose trace says what it asked for, where, and what there was."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import in_process
import program
import pytest
from sample_trace import sample
from sessions import check_ledger

import coldstep
from coldstep._util.figures import size
from coldstep.analysis import memory
from coldstep.model import Failure, Finding, Trace
from coldstep.pftrace.layout import DEVICE, DEVICE_PEAK
from coldstep_collectors.process.collector import cgroup_left
from coldstep_viewers.report import memory_and_ranks

GB = 1 << 30
LIMITED = """
import resource, time
import coldstep

GB = 1 << 30

def used():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()

def limit(gigabytes):
    resource.setrlimit(resource.RLIMIT_AS, (used() + (gigabytes << 30), resource.RLIM_INFINITY))
"""
PYTHON = """
limit(1)
with coldstep.trace("t.pftrace", collectors=["process"]):
    with coldstep.step("train"):
        pass
    with coldstep.step("train"):
        bytearray(64 << 30)
"""
EAGER = """
import torch
limit(2)

def forward(n):
    return torch.empty(n, dtype=torch.uint8)

with coldstep.trace("t.pftrace"):
    for n in (1, 4 << 30):
        with coldstep.step("train"):
            forward(n)
"""
COMPILING = """
import torch
limit(2)

def constants(graph, inputs):
    torch.empty(4 << 30, dtype=torch.uint8)
    return graph

def forward(x):
    return x + 1

with coldstep.trace("t.pftrace"), coldstep.step("train"):
    torch.compile(forward, backend=constants)(torch.ones(2))
"""
XLA = """
import jax, jax.numpy as jnp
forward = jax.jit(lambda n: jnp.zeros((2 << 30,), jnp.uint8) + n)
jax.jit(lambda n: n + 1)(1)
limit(1)
with coldstep.trace("t.pftrace"), coldstep.step("train"):
    coldstep.wait(forward(jnp.uint8(1)))
"""
FREED = """
limit(1)
with coldstep.trace("t.pftrace", collectors=["process"]), coldstep.step("train"):
    held = [bytearray(200 << 20) for _ in range(4)]
    time.sleep(0.5)
    try:
        raise MemoryError("Unable to allocate 64.0 GiB")
    finally:
        held.clear()
        time.sleep(0.5)
"""
KILLED = """
import os, signal
limit(1)
with coldstep.trace("t.pftrace", collectors=["process"]):
    with coldstep.step("train"):
        time.sleep(0.5)
        left = resource.getrlimit(resource.RLIMIT_AS)[0] - used()
        held = b"x" * (left - (40 << 20))
        time.sleep(1)
        os.kill(os.getpid(), signal.SIGKILL)
"""


def ran_out(folder: Path, source: str, stack: str | None = None) -> tuple[Trace, Finding]:
    """Run what cannot be, and read what the trace says of it."""
    done = program.run(LIMITED + source, folder, check=False, stack=stack)
    assert done.returncode != 0
    trace = coldstep.load(folder / "t.pftrace")
    check_ledger(trace)
    [found] = [row for row in trace.findings if row.kind == "out_of_memory"]
    assert trace.intervals[found.interval or 0].kind == "step"
    return trace, found


def test_pythons_own_error_names_the_step_and_what_was_left(tmp_path: Path, engine: ModuleType) -> None:
    trace, found = ran_out(tmp_path, PYTHON)
    assert trace.run.ended == "out_of_memory"
    assert (found.step, found.severity) == (1, "error")
    assert found.text.startswith("Out of memory in step 1 of train, in <module> (program.py:")
    assert found.text.endswith(" were left under RLIMIT_AS")
    engine.assert_clean(tmp_path / "t.pftrace")
    report = in_process.run("report", tmp_path / "t.pftrace", "--json")
    assert found.text in [row["text"] for row in json.loads(report.stdout)["findings"]]


def test_the_limit_that_was_reached_is_named(tmp_path: Path) -> None:
    _, found = ran_out(tmp_path, PYTHON.replace("limit(1)", "resource.setrlimit(resource.RLIMIT_DATA, (GB, GB))"))
    assert found.text.endswith(" were left under RLIMIT_DATA")
    assert " MiB were left" in found.text


def test_what_was_left_is_not_what_the_error_has_freed_meanwhile(tmp_path: Path) -> None:
    _, found = ran_out(tmp_path, FREED)
    left = re.search(r", ([\d.]+) MiB were left under RLIMIT_AS$", found.text)
    assert left is not None
    assert float(left[1]) < 300


def test_a_step_whose_own_error_was_caught_is_not_blamed_for_a_later_one(tmp_path: Path) -> None:
    path = tmp_path / "t.pftrace"

    def evaluate() -> None:
        raise MemoryError

    def train() -> None:
        with contextlib.suppress(MemoryError), coldstep.step():
            evaluate()
        evaluate()

    with pytest.raises(MemoryError), coldstep.trace(path, collectors=[]):
        train()
    [found] = [row for row in coldstep.load(path).findings if row.kind == "out_of_memory"]
    assert found.text.startswith("Out of memory after the last step, ")


@pytest.mark.torch
def test_an_allocation_is_named_with_what_it_asked_for(tmp_path: Path) -> None:
    _, found = ran_out(tmp_path, EAGER, "torch")
    assert found.text.startswith("Out of memory in step 1 of train, in forward (program.py:")
    assert ": asked for 4.0 GiB, " in found.text
    left = next(text for text in found.evidence if "left under RLIMIT_AS" in text)
    assert 1.0 < float(left.split()[0]) <= 2.0
    assert found.location is not None
    assert found.location.function == "forward"


@pytest.mark.torch
def test_the_compile_that_ran_out_is_named(tmp_path: Path) -> None:
    trace, found = ran_out(tmp_path, COMPILING, "torch")
    assert found.text.startswith("Out of memory in step 0 of train, compiling forward: asked for 4.0 GiB, ")
    [compile_] = [row for row in trace.compiles if row.id in found.refs]
    assert (compile_.function, compile_.outcome) == ("forward", "failed")


@pytest.mark.jax
def test_xla_says_what_it_asked_for(tmp_path: Path) -> None:
    trace, found = ran_out(tmp_path, XLA, "jax")
    assert trace.run.ended == "out_of_memory"
    assert found.step == 0
    assert ": asked for 2.0 GiB, " in found.text


def test_who_was_killed_with_nothing_left_was_probably_out_of_memory(tmp_path: Path) -> None:
    trace, found = ran_out(tmp_path, KILLED)
    assert trace.run.ended == "killed"
    assert (found.step, found.severity) == (0, "warning")
    assert found.text.startswith("Killed in step 0 of train with ")
    assert " left under RLIMIT_AS: probably because memory ran out" in found.text


def test_a_devices_peak_is_the_allocators_own_where_it_keeps_one() -> None:
    trace = sample()
    at = trace.intervals[1].start_ns
    trace.counters = {
        (0, f"{DEVICE}cuda:0"): [(at, 1 * GB)],
        (0, f"{DEVICE_PEAK}cuda:0"): [(at, 3 * GB)],
        (0, f"{DEVICE}cuda:1"): [(at, 2 * GB)],
    }
    memory.fill(trace)
    assert trace.intervals[1].device_bytes == 3 * GB
    assert trace.memory.device_peak_bytes == 5 * GB


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 79.11 GiB "
            "of which 1.25 GiB is free. Process 7 has 77.85 GiB memory in use.",
            "asked for 2.5 GiB, 1.2 GiB were free on the device",
        ),
        (
            "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4294967296 bytes.",
            "asked for 4.0 GiB",
        ),
        ("MemoryError: Unable to allocate 7.40 GiB for an array with shape (1000000000,)", "asked for 7.4 GiB"),
    ],
)
def test_what_the_frameworks_say_is_understood(error: str, said: str) -> None:
    trace = sample()
    trace.processes[0].ended = trace.run.ended = "out_of_memory"
    trace.failures = {0: Failure(error, None, True)}
    [found] = memory.out_of_memory(trace)
    last = [row for row in trace.intervals if row.kind == "step"][-1]
    assert found.text == f"Out of memory in step {last.step} of {last.name}: {said}"
    assert error in found.evidence


MIB = 1 << 20


def grows(*parts: tuple[int, float], start: float = 100.0) -> list[float]:
    """The sizes of steps of which so many each add so much."""
    return list(itertools.accumulate([mib for steps, mib in parts for _ in range(steps)], initial=start))


@pytest.mark.parametrize(
    ("sizes", "recompiled", "said"),
    [
        (grows((42, 3)), None, "3.0 MiB more with each steady step"),
        (grows((20, 3), (1, 300), (20, 3)), 21, "3.0 MiB more with each steady step"),
        (grows((10, 0), (40, 2)), None, "2.0 MiB more with each steady step"),
        (grows((5, 80), (195, 0)), None, None),
        (grows((12, 40), (24, 0)), None, None),
        (grows((24, 40)), None, None),
        (grows((30, 0), (1, 400), (10, 0)), None, None),
        (grows((30, 0), (1, 400), (10, 0)), 31, None),
        (grows((40, -0.5)), None, None),
        (grows((40, 0.5)), None, None),
    ],
    ids=[
        *("leak", "leak-and-recompiled", "leaks-later", "warms-up", "warms-up-long", "few", "leap", "recompiled"),
        *("shrinks", "noise"),
    ],
)
def test_only_steady_steps_that_go_on_growing_are_growth(
    sizes: list[float], recompiled: int | None, said: str | None
) -> None:
    trace = sample()
    like = next(row for row in trace.intervals if row.label == "steady")
    trace.intervals = [
        replace(
            like,
            index=number,
            step=number,
            rss_bytes=round(mib * MIB),
            label="recompiled" if number == recompiled else "steady",
        )
        for number, mib in enumerate(sizes)
    ]
    [line] = memory_and_ranks.memory(trace, every=True)
    assert line.startswith(f"{like.name}: {size(round(max(sizes) * MIB))} at most, in step ")
    assert line.partition("; ")[2] == (said or "")


@pytest.mark.parametrize("compiles", [[], ["c1"]], ids=["quiet", "compiles"])
def test_what_a_gap_compiled_is_not_the_steps_growth(compiles: list[str]) -> None:
    trace = sample()
    step = next(row for row in trace.intervals if row.label == "steady")
    gap = next(row for row in trace.intervals if row.kind == "between")
    rows = [
        (
            replace(step, index=2 * n, step=n, rss_bytes=(100 + 3 * n) * MIB),
            replace(gap, index=2 * n + 1, compiles=compiles),
        )
        for n in range(40)
    ]
    trace.intervals = [row for pair in rows for row in pair]
    [line] = memory_and_ranks.memory(trace, every=True)
    assert ("more with each" in line) == (not compiles)


def test_what_a_cgroup_would_give_back_is_not_used(tmp_path: Path) -> None:
    usage, stat = tmp_path / "memory.current", tmp_path / "memory.stat"
    usage.write_text("900\n")
    stat.write_text("anon 500\ninactive_file 200\nactive_file 100\n")
    assert cgroup_left(1000, usage, stat, "inactive_file") == 300
