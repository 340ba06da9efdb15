"""The line about what is compiling, as it stands on a terminal, beside other people's bars, and in a log."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import termios
import textwrap
from pathlib import Path

import pyte
import pytest

import coldstep
from coldstep import events
from coldstep.clock import Snapshot
from coldstep.recording.buffer import Thread
from coldstep.recording.recorder import Recorder, UnderWay
from coldstep_viewers.report.live import Live, line

SLOW = """
    import sys, time
    import coldstep, jax, jax.numpy as jnp

    def slow(name):
        def function(x):
            time.sleep(4.5)  # while JAX traces it
            return x + 1
        function.__name__ = name
        return jax.jit(function)
"""
BARS = f"""{SLOW}
    from rich.progress import track
    from tqdm import tqdm

    with coldstep.trace("run.pftrace"):
        for n in tqdm(range(3), desc="training", ncols=60):
            if n == 1:
                slow("under_tqdm")(jnp.ones(3))
        for n in track(range(3), description="validating"):
            if n == 1:
                slow("under_rich")(jnp.ones(3))
        with coldstep.step():
            slow("alone")(jnp.ones(3))
        for n in range(40):
            print(n)
"""


def on_terminal(source: str, folder: Path) -> list[list[str]]:
    """What a terminal of 80 columns and 20 rows showed while the program ran, each time that changed; the last one
    with all that had scrolled away."""
    (folder / "program.py").write_text(textwrap.dedent(source))
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        termios.tcsetwinsize(0, (20, 80))
        os.execve(sys.executable, [sys.executable, "program.py"], os.environ | {"TERM": "xterm"})
    screen = pyte.HistoryScreen(80, 20, history=1_000)
    stream = pyte.ByteStream(screen)
    shown: list[list[str]] = []
    while True:
        try:
            stream.feed(os.read(terminal, 1 << 16))
        except OSError:  # the other end is closed
            break
        rows = [row.rstrip() for row in screen.display if row.strip()]
        if not shown or shown[-1] != rows:
            shown.append(rows)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, shown[-1]
    gone = ["".join(row[at].data for at in range(80)).rstrip() for row in screen.history.top]
    shown.append([row for row in gone if row] + shown[-1])
    return shown


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("live")


@pytest.fixture(scope="module")
def shown(folder: Path) -> list[list[str]]:
    pytest.importorskip("jax")
    return on_terminal(BARS, folder)


@pytest.mark.jax
@pytest.mark.parametrize(("name", "bar"), [("under_tqdm", "training: "), ("under_rich", "validating ")])
def test_the_line_stands_below_a_bar_and_leaves_it_as_it_was(shown: list[list[str]], name: str, bar: str) -> None:
    both = [rows for rows in shown if any(f"compiling {name}, 4 s: JAX tracing" in row for row in rows)]
    assert both
    for rows in both:
        above, said = rows[-2:]
        assert above.startswith(bar)
        assert said == f"coldstep: compiling {name}, 4 s: JAX tracing"


@pytest.mark.jax
def test_nothing_of_it_is_left_behind(shown: list[list[str]]) -> None:
    last = shown[-1]
    assert any(row.startswith("training: 100%") for row in last)
    assert any(row.startswith("validating") and "100%" in row for row in last)
    assert [row for row in last if row.isdigit()] == [str(n) for n in range(40)]
    assert not any("compiling" in row for row in last)
    assert any("compiling alone, 4 s" in row for rows in shown for row in rows)


def test_kernels_that_a_pool_builds_are_counted(tmp_path: Path) -> None:
    home, pool = Thread(1, "MainThread"), Thread(2, "pool")
    fd = os.open(tmp_path / "run.pftrace", os.O_WRONLY | os.O_CREAT)
    recorder = Recorder(fd, home, None, Snapshot(0, 0, 0, 0), {})
    assert recorder.under_way(0) is None

    def emit(thread: Thread, ns: int, name: str, phase: str | None, **more: object) -> events.Begin:
        begin = events.Begin(ns, name, "torch", phase, **more)  # type: ignore[arg-type]
        recorder.handle(begin, thread)
        return begin

    forward = emit(home, 1, "GPT.forward", None, compile="c0", args={"function": "GPT.forward"})
    emit(home, 2, "dynamo", "dynamo.trace")
    assert recorder.under_way(11) == UnderWay("c0", "GPT.forward", 10, "dynamo.trace", 0, None, "Dynamo tracing")
    for ns in (10, 20):
        built = emit(pool, ns, "compile_file", "inductor.cpp")
        recorder.handle(events.End(ns + 5, built), pool)
    waits = emit(home, 30, "async_compile.wait", "inductor.cpp", args={"kernels": 3})
    assert recorder.under_way(12_000_000_001) == UnderWay(
        "c0", "GPT.forward", 12_000_000_000, "inductor.cpp", 2, 3, "C++ compilation"
    )
    found = recorder.under_way(12_000_000_001)
    assert found is not None
    assert line(found) == "compiling GPT.forward, 12 s: C++ compilation, kernels 2 of 3"
    recorder.handle(events.End(40, waits), home)
    second = emit(home, 50, "async_compile.wait", "inductor.cpp", args={"kernels": 1})
    assert line(recorder.under_way(3_000_000_051) or found).endswith("kernels 0 of 1")  # the next graph's own
    recorder.handle(events.End(60, second), home)
    recorder.handle(events.End(70, forward), home)
    assert recorder.under_way(80) is None
    os.close(fd)


@pytest.mark.jax
def test_showing_it_is_no_part_of_the_ledger(folder: Path, shown: list[list[str]]) -> None:
    phases = {phase for row in coldstep.load(folder / "run.pftrace").intervals for phase in row.phases}
    assert not {phase for phase in phases if "coldstep_" in phase}


def test_in_a_log_it_is_a_line_every_30_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    live = Live()
    for tenth in range(650):
        live(UnderWay("c0", "train_step", tenth * 100_000_000, "xla.compile", 0, None))
    live(None)
    live(UnderWay("c1", "evaluate", 31_000_000_000, None, 0, None))
    live(UnderWay("c2", "serve", 32_000_000_000, None, 0, None, after="warm-up"))
    assert capsys.readouterr().err.splitlines() == [
        "coldstep: compiling train_step, 30 s: XLA compilation",
        "coldstep: compiling train_step, 60 s: XLA compilation",
        "coldstep: compiling evaluate, 31 s",
        "coldstep: compiling serve after warm-up, 32 s",
    ]


@pytest.mark.jax
def test_a_line_that_fails_is_a_note_and_no_more(tmp_path: Path) -> None:
    broken = """
    import coldstep_viewers.report.live
    def fail(self, under_way):
        raise RuntimeError("broken")
    coldstep_viewers.report.live.Live.__call__ = fail
    with coldstep.trace("run.pftrace", live=sys.argv[1] == "live") as run:
        coldstep.wait(slow("slow")(jnp.ones(3)))
    """
    (tmp_path / "program.py").write_text(textwrap.dedent(SLOW + broken))
    for live in ("live", "not"):
        command = [sys.executable, "program.py", live]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        trace = coldstep.load(tmp_path / "run.pftrace")
        assert trace.run.notes == (["the live line ended: RuntimeError: broken"] if live == "live" else [])
        assert trace.compiles[-1].outcome == "compiled"


@pytest.mark.parametrize("options", [[], ["--no-live"]])
def test_the_command_can_do_without_it(tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "program.py").write_text("from coldstep.session import active; print(active().options.live)")
    command = [sys.executable, "-m", "coldstep", "run", *options, "program.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.strip() == str(not options)
