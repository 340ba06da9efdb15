"""What a trace tells of the process: memory, CPU and threads over time, and what other processes worked for it."""

from __future__ import annotations

import gc
import mmap
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import program
import psutil
import pytest
from sessions import check_ledger

import coldstep
from coldstep import clock
from coldstep.pftrace.layout import RSS
from coldstep_collectors.process import children, memory
from coldstep_viewers.report.terminal import render

MB = 1 << 20
ONLY = ["process"]
WORK = "select s.name, s.ts, s.dur, s.track_id, s.arg_set_id from slice s join track t on t.id = s.track_id "
WORK += "where t.name = 'Worker processes' and s.name in ('python', 'python3', 'python3.11', 'sh', 'sleep', 'g++') "
WORK += (
    "and s.arg_set_id in (select arg_set_id from args where key = 'debug.pid' and int_value not in ({0})) order by s.ts"
)


@pytest.fixture
def work() -> str:
    """Asks for the processes of the test itself: what other tests have left (a browser, a pool's tracker) runs on."""
    return WORK.format(", ".join(str(child.pid) for child in psutil.Process().children(recursive=True)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t.pftrace"


def test_memory_cpu_and_threads_are_curves(path: Path, engine: ModuleType) -> None:
    gc.collect()  # else what other tests have left may go meanwhile
    with coldstep.trace(path, collectors=ONLY):
        time.sleep(0.3)
        with coldstep.step():
            held = mmap.mmap(-1, 96 * MB)  # a heap that was trimmed keeps what is freed in it
            for at in range(0, len(held), mmap.PAGESIZE):
                held[at] = 1
            stop = threading.Event()
            thread = threading.Thread(target=stop.wait)
            thread.start()
            until = time.monotonic() + 0.5
            while time.monotonic() < until:
                sum(range(1000))
            stop.set()
            thread.join()
        with coldstep.step():
            del held
            time.sleep(0.3)
    trace = coldstep.load(path)
    before, during, _, after, _ = (row.rss_bytes for row in trace.intervals)
    assert before is not None
    assert during is not None
    assert during - before >= 90 * MB
    assert after is not None
    assert abs(after - during) < 8 * MB  # where the step begins; a step's figure is its highest
    assert trace.counters[0, RSS][-1][1] < during - 80 * MB
    assert max(value for _, value in trace.counters[0, "CPU"]) > 0
    threads = [value for _, value in trace.counters[0, "threads"]]
    assert max(threads) == threads[0] + 1
    assert trace.memory.peak_rss_bytes is not None
    assert trace.memory.peak_rss_bytes >= during
    assert trace.memory.device_peak_bytes is None
    assert {row.name: row.state for row in trace.collectors} == {"process": "attached"}
    engine.assert_clean(path)
    [curves] = engine.query(
        path,
        "select distinct t.name, c.unit, p.name as parent from counter_track c join track t using (id) "
        "join track p on p.id = t.parent_id",
    )
    assert {row["parent"] for row in curves} == {"Counters"}
    units = {row["name"]: row["unit"] for row in curves}
    assert units["RSS"] == units["memory left on the machine"] == "bytes"
    assert (units["CPU"], units["threads"]) == ("cores", "threads")


@pytest.mark.timing
def test_other_processes_are_drawn_and_what_they_were_told_is_not(path: Path, work: str, engine: ModuleType) -> None:
    left = len(psutil.Process().children(recursive=True))
    burn = "import time; t = time.monotonic()\nwhile time.monotonic() - t < 0.6: pass"
    with coldstep.trace(path, collectors=ONLY), coldstep.step():
        first = subprocess.Popen([sys.executable, "-c", burn, "--token=hush"])
        # nothing below it: whether a look at the processes falls into a child's child's life is chance
        second = subprocess.Popen(["sh", "-c", "read line; exit 3"], stdin=subprocess.PIPE)
        third = subprocess.Popen(["sleep", "60"])
        pids = first.pid, second.pid, third.pid
        time.sleep(0.3)
        second.communicate()
        first.communicate()
        third.kill()
        while third.poll() is None:
            time.sleep(0.01)
    trace = coldstep.load(path)
    check_ledger(trace)
    assert trace.intervals[1].waits == []  # nobody knows what they were for
    [note] = trace.run.notes
    told = re.match(r"(\d+) other Python process(?:es)? ran below this one and (?:is|are) not traced", note)
    assert told is not None
    assert 1 <= int(told[1]) <= 1 + left, "what other tests have left (a pool's tracker) may be one, too"
    engine.assert_clean(path)
    [slices, args] = engine.query(
        path, work, "select arg_set_id, key, display_value from args where key in ('debug.pid', 'debug.exit_code', "
        "'debug.cpu_ns', 'debug.command')"
    )  # fmt: skip
    said = {row["arg_set_id"]: {} for row in slices}
    for row in args:
        if row["arg_set_id"] in said:
            said[row["arg_set_id"]][row["key"]] = row["display_value"]
    names = [row["name"] for row in slices]
    assert names == [os.path.basename(sys.executable), "sh", "sleep"]
    assert [said[row["arg_set_id"]]["debug.pid"] for row in slices] == [str(pid) for pid in pids]
    assert [said[row["arg_set_id"]]["debug.exit_code"] for row in slices] == ["0", "3", "-9"]
    assert all("debug.command" not in said[row["arg_set_id"]] for row in slices)
    assert len({row["track_id"] for row in slices}) == 3  # they overlap
    assert slices[0]["dur"] >= 600_000_000
    assert slices[1]["dur"] >= 300_000_000
    assert int(said[slices[0]["arg_set_id"]]["debug.cpu_ns"]) > 50_000_000


@pytest.mark.timing
def test_a_child_that_was_seen_before_its_own_command_is_no_python(path: Path, tmp_path: Path) -> None:
    program.run(  # below pytest's worker run Pythons that other tests have started
        """
        import subprocess, time
        import coldstep
        with coldstep.trace("t.pftrace", collectors=["process"]):
            time.sleep(0.1)
            # until then it is a copy of this process, with this one's command
            subprocess.run(["true"], preexec_fn=lambda: time.sleep(2.5), check=True)
        """,
        tmp_path,
    )
    assert not any("other Python process" in note for note in coldstep.load(path).run.notes)


def test_a_program_that_is_not_there_is_no_python(path: Path, tmp_path: Path) -> None:
    program.run(
        """
        import contextlib, subprocess, time
        import coldstep
        with coldstep.trace("t.pftrace", collectors=["process"]):
            for _ in range(6):  # each is a copy of this process, until it finds no program to run
                with contextlib.suppress(FileNotFoundError):
                    subprocess.run(["/no/such/program"], preexec_fn=lambda: time.sleep(0.4))
                    raise AssertionError
        """,
        tmp_path,
    )
    assert not any("other Python process" in note for note in coldstep.load(path).run.notes)


def test_what_a_compiler_used_is_known_to_its_end_and_not_to_the_last_look(path: Path, tmp_path: Path) -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    compiler = tmp_path / "g++"  # uses nothing itself, as the real one, which has cc1plus work for it
    compiler.write_text(f"#!/bin/sh\n'{sys.executable}' -c '{burn}'\nexit 0\n")
    compiler.chmod(0o755)
    with coldstep.trace(path, collectors=ONLY):
        process = subprocess.Popen([str(compiler)])
        while process.poll() is None:  # for what is waited for is a build, which has a row
            time.sleep(0.01)
    # a look may catch the shell's child before its own command begins: until then it is another g++
    rows = [row for row in coldstep.load(path).unplaced if row.what == "g++"]
    assert 250_000_000 <= sum(row.work_ns for row in rows) <= 500_000_000
    assert all(row.work_ns <= row.wall_ns * (os.cpu_count() or 1) for row in rows)


def test_the_pool_of_inductors_compilers_is_at_work_while_it_ends_and_compiles_nothing_by_that(path: Path) -> None:
    burn = "import time\nwhile time.process_time() < 1.5: pass"
    start = f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {burn!r}, 'compile_worker']).wait()"
    with coldstep.trace(path, collectors=ONLY):
        exec(start, {"__name__": "torch._inductor.compile_worker.subproc_pool"})
    assert [row.what for row in coldstep.load(path).unplaced] == []


def test_a_look_at_what_runs_below_reads_only_what_is_new_or_below(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []
    read = memory._read
    monkeypatch.setattr(memory, "_read", lambda path: looked_at.append(path) or read(path))
    monkeypatch.setattr(memory, "_SAME_S", 1e9)  # however busy the machine is
    processes, own = memory.Processes(), os.getpid()
    with subprocess.Popen(["sh", "-c", "sleep 60 & wait"]) as shell:
        [sleeps] = settled(processes, own, shell.pid)
        try:
            first = {shell.pid, sleeps.pid}
            assert f"/proc/{own}/stat" in looked_at
            looked_at.clear()
            again = [row.pid for row in processes.below(own)]
            assert first <= set(again)
            assert again.index(shell.pid) == min(map(again.index, first)), "parents first"
            assert {f"/proc/{pid}/stat" for pid in first} <= set(looked_at)
            assert f"/proc/{own}/stat" not in looked_at
            with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as new:
                assert new.pid in {row.pid for row in processes.below(own)}
            assert new.pid not in {row.pid for row in processes.below(own)}
            monkeypatch.setattr(memory, "_SAME_S", 0.0)  # the number of a process may be another's by now
            processes.below(own)
            assert f"/proc/{own}/stat" in looked_at
        finally:
            os.kill(sleeps.pid, 9)


def settled(processes: memory.Processes, own: int, shell: int) -> list[memory.Stat]:
    """What a shell has started, once that runs its own command."""
    deadline = time.monotonic() + 20
    while not (rows := [row for row in processes.below(own) if (row.parent, row.name) == (shell, "sleep")]):
        assert time.monotonic() < deadline
    return rows


def test_a_process_whose_parent_has_ended_is_below_no_longer() -> None:
    processes, own = memory.Processes(), os.getpid()
    with subprocess.Popen(["sh", "-c", "sleep 60 & read line"], stdin=subprocess.PIPE) as shell:
        [left] = settled(processes, own, shell.pid)
        assert shell.stdin is not None
        shell.stdin.close()
        while memory.words(shell.pid):  # it has ended, and nobody has asked how
            time.sleep(0.01)
        below = {row.pid for row in processes.below(own)}
        assert (left.pid in below, shell.pid in below) == (False, True)
        os.kill(left.pid, 9)


def test_what_a_process_has_imported_is_looked_for_the_more_seldom_the_longer_it_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(memory, "framework", lambda pid: asked.append(pid) or "")
    sink: Any = type("Sink", (), {"follows_children": False, "emit": lambda _: None})
    below = children.Children(sink, "process")
    for age_s, looks in ((0, 5), (1, 5), (60, 1)):
        child = children._Child(1, clock.now() - age_s * 1_000_000_000, "python", None, None, 2)
        asked.clear()
        for _ in range(5):
            below._look_into(child)
            time.sleep(0.1)
        assert len(asked) == looks
    below._known[1] = child
    below.finish()
    assert len(asked) == 2  # as the trace ends, whatever is still there is looked into once more


@pytest.mark.timing
def test_a_process_that_python_did_not_start_is_found(path: Path, work: str, engine: ModuleType) -> None:
    with coldstep.trace(path, collectors=ONLY):
        # looked for once a second; more rarely on a busy machine, for the looks may take 1 % of a processor
        pid = os.posix_spawn("/bin/sleep", ["sleep", "3.2"], {})
        os.waitpid(pid, 0)
        left = os.posix_spawn("/bin/sleep", ["sleep", "30"], {})
        time.sleep(3.2)
    os.kill(left, 9)
    os.waitpid(left, 0)
    [slices] = engine.query(path, work)
    assert [row["name"] for row in slices] == ["sleep", "sleep"]
    assert 3_100_000_000 <= slices[0]["dur"] <= 6_400_000_000
    engine.assert_clean(path)


def test_the_words_that_start_a_process_of_multiprocessings_are_no_line_of_the_users(
    path: Path, tmp_path: Path
) -> None:
    text = f"import coldstep, time\nwith coldstep.trace({str(path)!r}, collectors={ONLY}): time.sleep(1)"
    for options, shown in (([], True), (["--multiprocessing-fork"], False)):
        subprocess.run([sys.executable, "-c", text, *options], cwd=tmp_path, check=True, capture_output=True)
        assert ("<string>:2" in render(coldstep.load(path))) is shown


POPEN = """
import subprocess
import pytest
import coldstep

popen = subprocess.Popen
real = popen.__init__, popen.poll, popen.wait
with coldstep.trace("t.pftrace", collectors=["process"]):
    assert popen.__init__ is not real[0]
    with pytest.raises(FileNotFoundError):
        subprocess.run(["/no/such/program"])
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(["sleep", "20"], timeout=0.1)
    with pytest.raises(subprocess.CalledProcessError):
        subprocess.check_call("exit 4", shell=True)
    assert subprocess.check_output(["echo", "said"], text=True) == "said\\n"
    with subprocess.Popen(args=["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as cat:
        assert cat.communicate(b"through") == (b"through", None)
assert (popen.__init__, popen.poll, popen.wait) == real

with coldstep.trace("replaced.pftrace", collectors=["process"]):
    theirs = popen.wait
    popen.wait = lambda self, timeout=None: theirs(self, timeout)
assert subprocess.run(["true"]).returncode == 0
"""


def test_popen_is_itself_again_afterwards_and_fails_as_ever(path: Path, tmp_path: Path) -> None:
    program.run(POPEN, tmp_path)  # below pytest's worker may run what another test has started
    trace = coldstep.load(path)
    assert trace.run.notes == []
    assert trace.run.dropped.ledger == 0
    assert "Popen.wait" in coldstep.load(tmp_path / "replaced.pftrace").run.notes[0]


def test_a_forked_child_samples_nothing(tmp_path: Path) -> None:
    program.run(
        """
        import os, subprocess, time
        import coldstep
        with coldstep.trace("t.pftrace", collectors=["process"]):
            if not (child := os.fork()):
                subprocess.run(["true"])
                time.sleep(0.3)
                os._exit(0)
            os.waitpid(child, 0)
        """,
        tmp_path,
    )
    assert coldstep.load(tmp_path / "t.pftrace").run.ended == "ok"


INDUCTOR = """
import os
import coldstep
import torch

compiled = torch.compile(lambda x: (x.sin() * x).sum())
with coldstep.trace("t.pftrace"), coldstep.step():
    try:
        compiled(torch.ones(64))
    except Exception as error:
        print(type(error).__name__)
"""


def test_a_process_that_a_look_met_while_it_started_keeps_what_its_start_told(
    path: Path, engine: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    met, told = threading.Event(), threading.Event()
    init, words = subprocess.Popen.__init__, memory.words

    def starts(self: Any, *args: Any, **options: Any) -> None:
        init(self, *args, **options)
        assert met.wait(10)

    def slow(pid: int) -> list[str]:
        read = words(pid)
        met.set()
        told.wait(10)
        return read

    monkeypatch.setattr(subprocess.Popen, "__init__", starts)
    monkeypatch.setattr(memory, "words", slow)
    with coldstep.trace(path, collectors=ONLY):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(2)"])
        told.set()
        child.wait()
    [lines] = engine.query(path, "select int_value as line from args where key = 'debug.started_by.line'")
    assert [row["line"] for row in lines] != []


@pytest.mark.torch
def test_inductors_compilers_are_workers(tmp_path: Path, engine: ModuleType) -> None:
    program.run(INDUCTOR, tmp_path, env={"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}, stack="torch")
    path = tmp_path / "t.pftrace"
    trace = coldstep.load(path)
    check_ledger(trace)
    step, own = trace.intervals[1], trace.processes[0].pid
    waits = [row for row in step.waits if row.pid != own]
    assert {row.phase for row in waits} == {"inductor.cpp"}
    assert 0 < sum(row.worker_ns for row in waits) <= 3 * step.wall_ns
    assert all(row.worker_ns <= step.wall_ns for row in waits)
    assert re.search(r"C\+\+ compilation .* other processes worked on it for \d", render(trace))
    [work, commands] = engine.query(
        path,
        WORK.format(""),
        "select display_value as text from args where key = 'debug.command' and display_value glob '*.cpp*'",
    )
    compilers = [row for row in work if row["name"] == "g++"]
    assert len(compilers) >= 2
    assert max(row["dur"] for row in compilers) == max(row.worker_ns for row in waits)
    assert commands
    [program_] = [row for row in trace.compiles if row.memory is not None]
    assert program_.memory is not None
    assert (program_.memory.argument_bytes, program_.memory.output_bytes) == (256, 4)
    engine.assert_clean(path)


@pytest.mark.torch
def test_a_compiler_that_was_killed_is_named(tmp_path: Path) -> None:
    compiler = tmp_path / "g++"
    compiler.write_text("#!/bin/sh\nkill -9 $$\n")
    compiler.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    env = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"), "PATH": path}
    done = program.run(INDUCTOR, tmp_path, env=env, stack="torch")
    assert done.stdout.strip().endswith("Error")
    trace = coldstep.load(tmp_path / "t.pftrace")
    [note, *_] = [note for note in trace.run.notes if "killed" in note]
    assert note.startswith("g++ (process ")
    assert note.endswith("was killed by signal 9")
    assert [row.outcome for row in trace.compiles] == ["failed"]
