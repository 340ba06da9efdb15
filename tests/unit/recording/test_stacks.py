"""Stacks sampled by py-spy: on the timeline under their thread, and as names of what no hook saw."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import program
import pytest
from sessions import check_ledger

import coldstep
from coldstep.loading.lines import HELD
from coldstep_viewers.report.terminal import render

BUSY = """
import time

def expand(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sorted(range(1000), key=str)
"""
SIZES = """
import algebra

def simplify(seconds):
    algebra.expand(seconds)
"""
PROGRAM = """
import threading
import coldstep
from compiler import sizes

def waiter(stop):
    stop.wait()

with coldstep.trace("t.pftrace", collectors=["process", "stacks"], stacks=True):
    stop = threading.Event()
    waiting = threading.Thread(target=waiter, args=(stop,), name="waiting")
    waiting.start()
    with coldstep.step():
        sizes.simplify(1.5)
    stop.set()
    waiting.join()
"""
FORBIDDEN = """
import ctypes, os
libc = ctypes.CDLL(None)
libc.prctl(24, 19, 0, 0, 0)  # PR_CAPBSET_DROP, CAP_SYS_PTRACE: of root and of all that it starts
libc.prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE: of everybody else
"""


def run(folder: Path, source: str) -> None:
    (folder / "algebra.py").write_text(BUSY)
    (folder / "compiler").mkdir()
    (folder / "compiler" / "__init__.py").touch()
    (folder / "compiler" / "sizes.py").write_text(SIZES)
    program.run(source, folder)


@pytest.mark.timing
def test_samples_name_what_no_hook_saw(tmp_path: Path, engine: ModuleType) -> None:
    run(tmp_path, PROGRAM)
    path = tmp_path / "t.pftrace"
    trace = coldstep.load(path)
    check_ledger(trace)
    step = trace.intervals[1]
    assert step.unattributed_ns >= 0.9 * step.wall_ns
    # the standard library works for whoever calls it
    assert 0.7 * step.wall_ns < step.sampled["algebra under compiler.sizes"] <= step.unattributed_ns
    assert sum(step.sampled.values()) <= step.unattributed_ns
    assert "% algebra under compiler.sizes" in " ".join(render(trace).split())
    bound = trace.device_traces[0, "py-spy"].clock_bound_ns
    assert 0 < bound <= 200_000_000
    engine.assert_clean(path)
    [frames, steps] = engine.query(
        path,
        "select t.id as track, s.name, s.ts, s.ts + s.dur as end, s.depth from slice s join track t "
        "on t.id = s.track_id where t.name glob 'Python stacks*'",
        "select s.ts, s.ts + s.dur as end from slice s join track t on t.id = s.track_id where t.name = 'Steps'",
    )
    # a stack that is read while it changes is lost, and cuts the frames around it in two
    simplify, expand, waiter = (
        [row for row in frames if row["name"] == name] for name in ("simplify", "expand", "waiter")
    )
    [main] = {row["track"] for row in (*simplify, *expand)}
    [depth] = {row["depth"] for row in simplify}
    assert {row["depth"] for row in expand} == {depth + 1}
    # a sampler that got no processor in time begins late, and never before what it saw
    assert steps[0]["ts"] - bound <= min(row["ts"] for row in simplify)
    # one that waits is shown, too: a compile waits most of its time
    assert main not in {row["track"] for row in waiter}
    assert sum(row["end"] - row["ts"] for row in waiter) >= 1_000_000_000
    assert not any(row["name"].startswith("coldstep_clock_anchor") for row in frames)


SLOW = """
import subprocess
from coldstep_collectors.process import py_spy

class Popen(subprocess.Popen):
    def __init__(self, command, **options):
        late = command[0].endswith("py-spy")
        super().__init__(["sh", "-c", 'sleep 0.8; exec "$@"', "sh", *command] if late else command, **options)

py_spy.subprocess.Popen = Popen
"""


@pytest.mark.timing
def test_the_first_line_is_sampled_however_long_the_sampler_takes_to_begin(tmp_path: Path) -> None:
    run(tmp_path, SLOW + PROGRAM)
    step = coldstep.load(tmp_path / "t.pftrace").intervals[1]
    assert step.sampled["algebra under compiler.sizes"] > 0.7 * step.wall_ns


def test_without_ptrace_there_is_a_note_and_everything_else(tmp_path: Path, engine: ModuleType) -> None:
    run(tmp_path, FORBIDDEN + PROGRAM)
    path = tmp_path / "t.pftrace"
    trace = coldstep.load(path)
    check_ledger(trace)
    [note] = trace.run.notes
    assert note.startswith("No stacks were sampled: ")
    assert "ptrace has to be allowed" in note
    assert {row.name: row.state for row in trace.collectors} == {"process": "attached", "stacks": "absent"}
    by_coldstep = {what for what in trace.intervals[1].sampled if what != HELD}
    assert all(".py:" in what for what in by_coldstep), by_coldstep
    assert trace.run.ended == "ok"
    assert trace.intervals[1].rss_bytes
    engine.assert_clean(path)


def test_nothing_is_sampled_unless_asked_for(tmp_path: Path) -> None:
    with coldstep.trace(tmp_path / "t.pftrace"):
        pass
    assert "stacks" not in {row.name for row in coldstep.load(tmp_path / "t.pftrace").collectors}
