"""What a program waits for where it has no phase: each way to wait by its name, and nothing where it works itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path

import pytest
from pythons import ROOT, VERSIONS, python_of

import coldstep
from coldstep.model import Interval, Waiting
from coldstep_viewers.report.terminal import render
from jobs.kinds import PROGRAMS, run

WAITS = {
    "run": ("wait4", "subprocess.run", 0),
    "join": ("wait4", "Process.join", 0),
    "join_within": ("join", "Process.join", 1),
    "recv": ("recv", "Connection.recv", 1),
    "get": ("recv", "Queue.get", 1),
    "pool_map": ("future", "Pool.map", 1),
    "two_work": ("future", "Pool.map", 2),
    "future": ("future", "Future.result", 1),
    "loop": ("poll", "asyncio", 1),
    "sleep": ("sleep", "sleep", 1),
}
"""How each is waited, in which call, and how many processes below worked meanwhile, if the kernel does not say for
which one it was waited."""
OF_THIS_PYTHON = {
    "communicate": ("recv", "subprocess.run", 0),
    "system": ("wait4", "wait4", 0),
    "wait_within": ("join", "Popen.wait", 0),
    "of_thread": ("recv", "Queue.get", 0),
    "thread_join": ("join", "Thread.join", 0),
    "accept": ("poll", "socket.accept", 0),
    "turns": ("recv", "MessageQueue.dequeue", 0),
}
SILENT = ("works_itself", "held", "held_by_another")
BY_FRAMES = {
    "communicate": ("recv", "subprocess.run", 0),
    "join": ("join", "Process.join", 1),
    "recv": ("recv", "Connection.recv", 1),
    "thread_join": ("join", "Thread.join", 0),
}
ENTRY_POINT = "[coldstep.collectors]\nprocess = coldstep_collectors.process.collector:Process\n"
Kind = tuple[str, str, int]


def begun(python: str, folder: Path, *cases: str, **env: str) -> dict[str, Interval]:
    """The whole time of each of these cases, run by that Python with this checkout and no framework."""
    shutil.copy(PROGRAMS / "waits.py", folder)
    info = folder / "coldstep-0.dist-info"  # whatever Python it is, nothing is installed there
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: coldstep\nVersion: 0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINT)
    tops = os.pathsep.join(str(ROOT / top) for top in ("tracer", "collectors"))
    done = subprocess.run(
        [python, folder / "waits.py", *cases],
        env={**os.environ, "PYTHONPATH": tops, **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "nothing was written" not in done.stderr  # where no viewer is installed neither
    return {path.stem: coldstep.load(path).intervals[0] for path in folder.glob("*.pftrace")}


@pytest.fixture(scope="module", params=VERSIONS)
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Interval]:
    """The cases on each Python."""
    python = python_of(request.param)
    if python is None:
        pytest.skip(f"no Python {request.param} runs here")
    return begun(python, tmp_path_factory.mktemp("waits"), *WAITS, *SILENT)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Interval]:
    """The further ones, on this Python."""
    zmq = ("zmq_poll", "zmq_recv") if find_spec("zmq") is not None else ()
    return begun(sys.executable, tmp_path_factory.mktemp("waits"), *OF_THIS_PYTHON, "two_joins", "reads", *zmq)


@pytest.mark.timing
def test_of_two_joins_each_is_a_wait_for_its_process(here: dict[str, Interval]) -> None:
    waits = [row for row in here["two_joins"].waiting if row.how == "wait4"]
    assert {kind(row) for row in waits} == {("wait4", "Process.join", 0)}
    assert len({row.pid for row in waits}) == 2


def longest(interval: Interval) -> Waiting:
    return max(interval.waiting, key=lambda row: row.ns)


def kind(row: Waiting) -> Kind:
    return row.how, row.where, row.working


@pytest.mark.timing
@pytest.mark.parametrize("name", WAITS)
def test_each_wait_has_its_name(name: str, found: dict[str, Interval]) -> None:
    # a busy machine may keep a look, or a process, from coming in time: what is behind it is another wait
    wait = next(row for row in found[name].waiting if kind(row) == WAITS[name])
    assert kind(longest(found[name]))[:2] == WAITS[name][:2]
    assert sum(row.ns for row in found[name].waiting) <= found[name].unattributed_ns
    assert (wait.pid is None) == (name == "two_work")
    assert (wait.process, wait.meanwhile) == (None, None), "it has no trace"
    assert wait.pid is None or (wait.command or "").startswith("python")


@pytest.mark.parametrize("name", SILENT)
def test_work_is_no_wait(name: str, found: dict[str, Interval]) -> None:
    assert found[name].waiting == []


@pytest.mark.timing
@pytest.mark.parametrize("name", OF_THIS_PYTHON)
def test_other_waits_have_their_names(name: str, here: dict[str, Interval]) -> None:
    assert kind(longest(here[name])) == OF_THIS_PYTHON[name]


@pytest.mark.timing
def test_who_turns_in_a_loop_for_a_message_waits_and_who_reads_it_works(here: dict[str, Interval]) -> None:
    assert longest(here["turns"]).ns > 0.6 * here["turns"].unattributed_ns
    assert here["reads"].waiting == []


@pytest.mark.timing
@pytest.mark.skipif(find_spec("zmq") is None, reason="pyzmq is not installed")
def test_waits_in_zmq_have_their_names(here: dict[str, Interval]) -> None:
    assert ("poll", "Poller.poll", 0) in map(kind, here["zmq_poll"].waiting)
    assert ("poll", "poll", 0) in map(kind, here["zmq_recv"].waiting)


@pytest.mark.timing
def test_where_the_kernel_shows_nothing_the_frames_do(tmp_path: Path) -> None:
    found = begun(sys.executable, tmp_path, *BY_FRAMES, "sleep", "held_by_another", SYSCALL=str(tmp_path / "none-{}"))
    assert {name: kind(longest(found[name])) for name in BY_FRAMES} == BY_FRAMES
    assert found["held_by_another"].waiting == []
    assert found["sleep"].waiting == [], "whether it sleeps or works is not known"


SLEEPS = "import time\ntime.sleep(1)\n"


@pytest.mark.timing
def test_the_report_has_it_unless_nobody_is_to_look(tmp_path: Path) -> None:
    (tmp_path / "sleeps.py").write_text(SLEEPS)
    (tmp_path / "block.py").write_text(
        "import coldstep, time\n"
        "with coldstep.trace('block.pftrace', collectors=['process'], waits=False): time.sleep(1)"
    )
    for words, env in (
        (("coldstep", "run", "--collectors", "process", "sleeps.py"), {}),
        (("coldstep", "run", "--collectors", "process", "--no-waits", "-o", "no.pftrace", "sleeps.py"), {}),
        (("coldstep", "run", "--collectors", "process", "-o", "env.pftrace", "sleeps.py"), {"COLDSTEP_WAITS": "0"}),
        (("python", "block.py"), {}),
    ):
        done = run(*words, cwd=tmp_path, **env)
        assert done.returncode == 0, done.stderr
    trace = coldstep.load(tmp_path / "sleeps.pftrace")
    assert "slept 1.0 s" in " ".join(render(trace, 200).split())
    for name in ("no", "env", "block"):
        assert all(row.waiting == [] for row in coldstep.load(tmp_path / f"{name}.pftrace").intervals)


def test_a_command_passes_on_that_nobody_is_to_look(tmp_path: Path) -> None:
    for words, value in ((("--no-waits",), b"0"), ((), b"")):
        done = run("coldstep", "run", *words, "bash", "-c", "echo -n $COLDSTEP_WAITS", cwd=tmp_path)
        assert done.stdout == value, done.stderr


SERVES = """
import multiprocessing, os

def engine(connection):
    import jax
    connection.send(float(jax.jit(lambda x: x + 1)(1.0)))

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=engine, args=(theirs,), name="Engine")
    process.start()
    print(ours.recv())
    process.join()
"""


@pytest.mark.jax
@pytest.mark.timing
def test_in_a_job_a_wait_has_what_the_other_process_did(tmp_path: Path) -> None:
    (tmp_path / "serves.py").write_text(textwrap.dedent(SERVES))
    done = run("coldstep", "run", "serves.py", cwd=tmp_path)
    assert done.stdout == b"2.0\n", done.stderr
    trace = coldstep.load(tmp_path / "serves.pftrace")
    own, engine = (next(row for row in trace.processes if row.name == name) for name in ("serves", "Engine"))
    assert [row.waiting for row in trace.intervals if row.process == engine.index] == [[]]
    waits = [row for interval in trace.intervals for row in interval.waiting if interval.process == own.index]
    found = next(row for row in waits if row.meanwhile == "imports")
    assert (found.process, found.pid, found.command) == (engine.index, engine.pid, None)
    assert kind(found) == ("recv", "Connection.recv", 1)
    [root] = [row for row in trace.intervals if row.process == own.index]
    assert sum(row.ns for row in root.waiting) <= root.unattributed_ns
    text = " ".join(render(trace, 240).split())
    assert "waited in Connection.recv" in text
    assert "while Engine worked (imports" in text
