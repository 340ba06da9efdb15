"""However a trace begins and ends, the program's own errors reach it, and nothing of coldstep stays in the process."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

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
    done = program.run(source, tmp_path, stack="jax")
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
    done = program.run(source, tmp_path, stack="jax")
    name = done.stdout.strip()
    assert name == ("LookupError" if where == "listener" else "NotReadyError")
    run = coldstep.load(tmp_path / "t.pftrace").run
    assert (run.ended, (run.error or "").partition(":")[0]) == ("exception", name)
    [headline] = [line for line in done.stderr.splitlines() if line.startswith("coldstep: t.pftrace: ")]
    assert f"ended: {name}" in headline


_SERVED = """
import os, signal, sys, time
import coldstep

def handler(number, frame):
    got.append(number)

def busy():  # in C, and without letting any other thread of Python's run
    sum(range(10**10))

got = []
if {before}:
    signal.signal(signal.SIGTERM, handler)
with coldstep.trace("t.pftrace", live=False):
    with coldstep.step():
        pass
    coldstep.ready()
    {body}
"""
_UVICORN = """original = signal.signal(signal.SIGTERM, handler)
    assert original is signal.SIG_DFL
    print("ready", flush=True)
    while not got:
        time.sleep(0.01)
    signal.signal(signal.SIGTERM, original)
    signal.raise_signal(signal.SIGTERM)"""
_OWN = """
    print("ready", flush=True)
    while not got:
        time.sleep(0.01)
    os._exit(4)"""


def _terminated(body: str, folder: Path, *, before: bool = False) -> int:
    """The exit status of a program that is sent SIGTERM once it says that it is ready."""
    script = folder / "program.py"
    script.write_text(_SERVED.format(body=body, before=before))
    process = subprocess.Popen([sys.executable, script], cwd=folder, stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", "the program did not come so far"
        time.sleep(0.3)
        process.terminate()
        return process.wait(60)


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ('print("ready", flush=True); busy()', "sum(range"),
        (_UVICORN, "raise_signal"),
    ],
    ids=["inside a call into C", "a server that puts the default back and raises it again"],
)
def test_sigterm_ends_the_process_as_it_would_and_the_trace_says_so(
    body: str, line: str, tmp_path: Path, engine: ModuleType
) -> None:
    from coldstep.analysis.budgets import doubts
    from coldstep_viewers.report.headline import headline
    from coldstep_viewers.report.sentences import how_it_ended

    assert _terminated(body, tmp_path) == -signal.SIGTERM
    trace = coldstep.load(tmp_path / "t.pftrace")
    assert (trace.run.ended, trace.run.error) == ("terminated", "SIGTERM")
    assert "ended: SIGTERM" in headline(trace)
    place = trace.failures[0].location
    assert place is not None
    assert line in (tmp_path / "program.py").read_text().splitlines()[place.line - 1]
    assert list(doubts(trace, any_end=True)) == []
    assert f"SIGTERM at {place.file}:{place.line}, in " in " ".join(how_it_ended(trace))
    engine.assert_clean(tmp_path / "t.pftrace", open_slices=True)


@pytest.mark.parametrize("before", [True, False])
def test_a_handler_of_the_program_s_takes_sigterm(before: bool, tmp_path: Path) -> None:
    body = _OWN if before else f"signal.signal(signal.SIGTERM, handler){_OWN}"
    assert _terminated(body, tmp_path, before=before) == 4
    run = coldstep.load(tmp_path / "t.pftrace").run
    assert (run.ended, run.error) == ("exit", "SystemExit: 4")


def test_after_a_trace_sigterm_is_as_it_was_and_children_know_nothing_of_it(tmp_path: Path) -> None:
    source = """
import os, signal, subprocess, sys, time
import coldstep

def caught():
    status = open("/proc/self/status").read().split("SigCgt:")[1].split()[0]
    return int(status, 16) >> (signal.SIGTERM - 1) & 1

own = [signal.signal, os._exit, caught(), sorted(os.listdir("/proc/self/fd"))]
with coldstep.trace("t.pftrace", live=False):
    assert caught() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    child = os.fork()
    if not child:
        time.sleep(60)
        os._exit(0)
    time.sleep(0.3)
    os.kill(child, signal.SIGTERM)
    assert os.waitpid(child, 0)[1] == signal.SIGTERM
    see = "print([line for line in open('/proc/self/status') if line[:6] in ('SigBlk', 'SigIgn', 'SigCgt')])"
    seen = subprocess.run([sys.executable, "-c", see], capture_output=True, text=True).stdout
assert [signal.signal, os._exit, caught(), sorted(os.listdir("/proc/self/fd"))] == own
assert subprocess.run([sys.executable, "-c", see], capture_output=True, text=True).stdout == seen
"""
    program.run(source, tmp_path)
    assert coldstep.load(tmp_path / "t.pftrace").run.ended == "ok"


@pytest.mark.parametrize(("code", "ended"), [(0, ("ok", None)), (3, ("exit", "SystemExit: 3"))])
def test_a_process_that_leaves_by_os_exit_was_not_killed(
    code: int, ended: tuple[str, str | None], tmp_path: Path
) -> None:
    source = f"""
import os
import coldstep
with coldstep.trace("t.pftrace", live=False):
    with coldstep.step():
        pass
    os._exit({code})
"""
    assert program.run(source, tmp_path, check=False).returncode == code
    run = coldstep.load(tmp_path / "t.pftrace").run
    assert (run.ended, run.error) == ended


def test_a_process_that_runs_is_still_running(tmp_path: Path) -> None:
    source = """
import subprocess, sys, time
import coldstep
command = [sys.executable, "-m", "coldstep", "report", "t.pftrace"]
with coldstep.trace("t.pftrace", live=False):
    with coldstep.step():
        pass
    time.sleep(1.2)
    print(subprocess.run(command, capture_output=True, text=True).stdout)
    check = [*command[:3], "check", "t.pftrace", "--max-recompiles", "0"]
    print(subprocess.run(check, capture_output=True, text=True))
"""
    said = program.run(source, tmp_path).stdout
    assert re.search(r"still running, ([1-9][\d.]*) s so far", said), said
    assert "returncode=2" in said
    assert "the process still runs" in said


def test_a_terminated_trace_stays_so_where_it_is_merged_or_stripped(tmp_path: Path) -> None:
    from coldstep.converting.rewrite import merge, strip

    _terminated('print("ready", flush=True); busy()', tmp_path)
    program.run("import coldstep\nwith coldstep.trace('ok.pftrace'):\n    pass", tmp_path)
    path = str(tmp_path / "t.pftrace")
    merge([str(tmp_path / "ok.pftrace"), path], str(tmp_path / "both.pftrace"))
    strip(path, str(tmp_path / "public.pftrace"))
    assert [row.ended for row in coldstep.load(tmp_path / "both.pftrace").processes] == ["ok", "terminated"]
    assert coldstep.load(tmp_path / "public.pftrace").run.error == "SIGTERM"


@pytest.mark.jax
def test_a_block_without_marks_has_steps_and_a_killed_one_its_frameworks_versions(tmp_path: Path) -> None:
    source = """
import os, signal, time
import jax, numpy as np
import coldstep

def update(w, x):
    return w - 0.1 * x.sum() * w

train, w = jax.jit(update), np.ones((4, 4), np.float32)
with coldstep.trace("t.pftrace", live=False):
    for _ in range(6):
        w = train(w, np.ones(3, np.float32))
    time.sleep(0.6)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert program.run(source, tmp_path, check=False, stack="jax").returncode == -signal.SIGKILL
    trace = coldstep.load(tmp_path / "t.pftrace")
    assert trace.run.ended == "killed"
    assert "jax" in trace.processes[0].versions
    steps = [row for row in trace.intervals if row.kind == "step"]
    assert len(steps) == 6
    assert {row.source for row in steps} == {"inferred"}


def test_a_pool_s_worker_does_not_keep_its_parent_waiting_for_a_headline(tmp_path: Path) -> None:
    source = """
import multiprocessing, sys
import coldstep

def work(n):
    with coldstep.trace(f"{n}.pftrace", live=False):
        with coldstep.step():
            pass
    return "coldstep.converting.write_findings" in sys.modules

with multiprocessing.get_context("fork").Pool(1) as pool:
    print(pool.map(work, [0]))
print(work(1))
"""
    assert program.run(source, tmp_path).stdout.split() == ["[False]", "True"]
    assert len([row for row in coldstep.load(tmp_path / "0.pftrace").intervals if row.kind == "step"]) == 1


def test_merged_processes_are_called_by_their_ranks_and_others_by_their_places(tmp_path: Path) -> None:
    from coldstep.converting.rewrite import merge
    from coldstep.pftrace.reader import TrackRow, rows

    paths = []
    for name, rank in (("agent", None), ("one", "1"), ("zero", "0")):
        source = f"import coldstep\nwith coldstep.trace('{name}.pftrace'):\n    pass"
        program.run(source, tmp_path, env={"RANK": rank} if rank is not None else None)
        paths.append(str(tmp_path / f"{name}.pftrace"))
    out = str(tmp_path / "job.pftrace")
    assert [row.name for row in merge(paths, out)] == ["process 0", "rank 1", "rank 0"]
    roots = [row.name for row in rows(out) if isinstance(row, TrackRow) and row.parent is None]
    assert roots == ["Pipeline (process 0)", "Pipeline (rank 1)", "Pipeline (rank 0)"]
