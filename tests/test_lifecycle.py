"""However a trace begins and ends, the program's own errors reach it, and nothing of coldstep stays in the process."""

from __future__ import annotations

import json
from pathlib import Path

import program
import pytest

import coldstep

# an error whose text cannot be made, and what shows that nothing of a trace is left
_MUTE = """
import os, subprocess, sys, threading
import coldstep

class ApiError(Exception):
    def __str__(self):
        return self.response.status

class Code:
    __slots__ = ()
    def __str__(self):
        raise RuntimeError("no text")
    __eq__ = None

def left():
    return [os.listdir("/proc/self/fd"), [t.name for t in threading.enumerate()], subprocess.Popen.__init__.__module__,
            subprocess.Popen.__init__.__code__.co_filename, [type(f).__name__ for f in sys.meta_path]]
"""


@pytest.mark.parametrize(
    ("error", "ended"),
    [
        ("ApiError(None)", ["exception", "ApiError"]),
        ("SystemExit(Code())", ["exit", "SystemExit"]),
        ("KeyboardInterrupt(Code())", ["interrupted", "KeyboardInterrupt"]),
    ],
)
def test_an_error_without_a_text_reaches_the_program(error: str, ended: list[str], tmp_path: Path) -> None:
    source = f"""
{_MUTE}
before, error = left(), {error}
try:
    with coldstep.trace("t.pftrace", live=False):
        with coldstep.step():
            raise error
except BaseException as caught:
    assert caught is error, caught
assert left() == before, (before, left())
"""
    done = program.run(source, tmp_path)
    run = coldstep.load(tmp_path / "t.pftrace").run
    assert [run.ended, run.error] == ended
    assert f"ended: {'interrupted' if ended[0] == 'interrupted' else ''}" in done.stderr


def test_a_collector_s_error_without_a_text_is_a_note(tmp_path: Path) -> None:
    source = f"""
{_MUTE}
from coldstep.session import Session
class Mute:
    name = "mute"
    def start(self, sink):
        sink.state("mute", "attached", None, [])
        self.hook = sink.guarded("mute", self.fail)
    def fail(self):
        raise ApiError(None)
    def stop(self):
        self.fail()
import coldstep.session
mute = Mute()
coldstep.session.discover = lambda names, offers: ([mute], [])
with coldstep.trace("t.pftrace"):
    mute.hook()
"""
    program.run(source, tmp_path)
    [note] = coldstep.load(tmp_path / "t.pftrace").run.notes
    assert note == "collector mute failed and was detached: ApiError"


def test_forecast_names_the_error_that_a_file_raises_at_import(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from coldstep_viewers.commands import cli

    (tmp_path / "net.py").write_text(f"{_MUTE}\nraise ApiError(None)\n")
    done = CliRunner().invoke(cli.main, ["forecast", f"{tmp_path}/net.py:f", f"{tmp_path}/net.py:calls"])
    assert (done.exit_code, "cannot be imported: ApiError" in done.output) == (2, True), done.output


def test_a_time_limit_that_fires_while_a_trace_begins_or_ends_reaches_the_program(tmp_path: Path) -> None:
    source = f"""
{_MUTE}
import json, random, signal, time
class Timeout(Exception):
    pass
fired = []
def limit(number, frame):
    fired.append(frame)
    raise Timeout
signal.signal(signal.SIGALRM, limit)
with coldstep.trace("t.pftrace"):  # loads all that there is to load
    pass
# Python itself prints and drops what a handler raises while it deletes an object
dropped = []
sys.unraisablehook = dropped.append
random.seed(4)
before, caught, took = left(), 0, 0.02
for _ in range(60):
    started = time.perf_counter()
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-4, took))
        with coldstep.trace("t.pftrace", live=False):
            with coldstep.step():
                pass
        signal.setitimer(signal.ITIMER_REAL, 0)
        took = time.perf_counter() - started
    except Timeout:
        caught += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    fired[-1:] = [None]
    assert left() == before, (before, left())
fired = [each for each in fired if each is None]
print(json.dumps([len(fired), caught + len(dropped)]))
"""
    fired, caught = json.loads(program.run(source, tmp_path).stdout)
    assert fired == caught
    assert caught > 5


def test_of_two_threads_that_enter_at_once_one_is_let_in(tmp_path: Path) -> None:
    source = f"""
{_MUTE}
before = left()
for _ in range(5):
    barrier, entered, refused = threading.Barrier(2), [], []
    def enter(path):
        barrier.wait()
        try:
            with coldstep.trace(path, live=False):
                entered.append(path)
                barrier.wait()
        except RuntimeError as error:
            refused.append(str(error))
            barrier.wait()
    threads = [threading.Thread(target=enter, args=(f"{{n}}.pftrace",)) for n in range(2)]
    [each.start() for each in threads]
    [each.join() for each in threads]
    assert len(entered) == len(refused) == 1, (entered, refused)
    assert "already active" in refused[0]
assert left() == before, (before, left())
try:
    with coldstep.trace("missing/t.pftrace"):
        pass
except FileNotFoundError:
    pass
with coldstep.trace("t.pftrace"):  # the place was given back
    pass
"""
    program.run(source, tmp_path)


def test_a_trace_that_cannot_begin_for_want_of_a_thread_leaves_nothing(tmp_path: Path) -> None:
    source = f"""
{_MUTE}
import _thread
with coldstep.trace("t.pftrace"):
    pass
before = left()
real = threading._start_new_thread
def none(*args, **kwargs):
    raise RuntimeError("can't start new thread")
threading._start_new_thread = threading._start_joinable_thread = none
try:
    with coldstep.trace("u.pftrace"):
        raise SystemExit("entered")
except RuntimeError as error:
    assert "thread" in str(error)
assert left() == before, (before, left())
assert not os.path.exists("u.pftrace")
"""
    program.run(source, tmp_path)


@pytest.mark.jax
def test_a_working_folder_that_is_gone_does_not_end_the_program(tmp_path: Path) -> None:
    source = """
import os, shutil, sys
import jax, numpy as np
import coldstep

os.makedirs("gone"); os.chdir("gone"); shutil.rmtree(os.getcwd())

def scale(x):
    return x * 2

fast, seen = jax.jit(scale), []
with coldstep.trace(sys.argv[0] + ".pftrace", on_recompile=seen.append, live=False):
    for rows in (2, 3):
        with coldstep.step():
            fast(np.ones(rows))
    coldstep.ready(action=seen.append)
    with coldstep.step():
        fast(np.ones(4))
    with coldstep.step():
        fast(np.ones(4))
print([(each.function, each.cause, os.path.isabs(each.caller.file)) for each in seen])
"""
    done = program.run(source, tmp_path)
    assert done.stdout.strip() == str([("scale", "shape", True)] * 3)
    trace = coldstep.load(tmp_path / "program.py.pftrace")
    assert trace.run.root == "" or Path(trace.run.root).is_absolute()


def test_a_step_ends_with_its_thread(tmp_path: Path) -> None:
    source = """
import threading, time
import coldstep

def dies():
    coldstep.step("odd").__enter__()

with coldstep.trace("t.pftrace", live=False):
    thread = threading.Thread(target=dies)
    thread.start()
    thread.join()
    for _ in range(3):
        with coldstep.step():
            time.sleep(0.01)
"""
    program.run(source, tmp_path)
    trace = coldstep.load(tmp_path / "t.pftrace")
    steps = [(row.name, row.step) for row in trace.intervals if row.kind == "step"]
    assert steps == [("odd", 0), ("step", 0), ("step", 1), ("step", 2)]
    assert not trace.run.notes


@pytest.mark.jax
@pytest.mark.parametrize("where", ["listener", "ready"])
def test_an_error_of_the_program_s_own_listener_is_the_end_of_the_block(where: str, tmp_path: Path) -> None:
    on_recompile = "on_recompile=stop, " if where == "listener" else ""
    source = f"""
import jax, jax.numpy as jnp
import coldstep

def stop(row):
    raise LookupError("stop here")

fast = jax.jit(lambda x: x * 2)
try:
    with coldstep.trace("t.pftrace", {on_recompile}live=False):
        fast(jnp.ones(2))
        if {where == "ready"}:
            coldstep.ready(action="raise")
        fast(jnp.ones(3))
except (LookupError, coldstep.NotReadyError) as error:
    print(type(error).__name__)
"""
    done = program.run(source, tmp_path)
    name = done.stdout.strip()
    assert name == ("LookupError" if where == "listener" else "NotReadyError")
    run = coldstep.load(tmp_path / "t.pftrace").run
    assert (run.ended, (run.error or "").partition(":")[0]) == ("exception", name)
    [headline] = [line for line in done.stderr.splitlines() if line.startswith("coldstep: t.pftrace: ")]
    assert f"ended: {name}" in headline
