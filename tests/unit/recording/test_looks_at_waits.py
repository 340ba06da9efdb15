"""Looks at a thread: what one makes of the kernel's call and the frames, and that none of it disturbs the program."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

import coldstep
from coldstep._util.threads import OwnThread
from coldstep.clock import now
from coldstep.events import Waits
from coldstep_collectors.process import waits
from coldstep_collectors.process.wait_calls import Seen, see
from coldstep_collectors.process.waits import WaitLooker

S = 1_000_000_000
STDLIB = os.path.dirname(os.__file__)
WAIT4, FUTEX, NANOSLEEP, POLL, READ = 61, 202, 35, 7, 0
x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="these are the kernel's numbers on x86-64")


def frames(*names: str) -> list[CodeType]:
    """Code by "file:qualified name", innermost first: "threading.py:Condition.wait"."""
    codes = []
    for file, _, name in (each.partition(":") for each in names):
        path = file if file.startswith("/") else f"{STDLIB}/{file}"
        codes.append(compile("", path, "exec").replace(co_qualname=name))
    return codes


LOOP = "threading.py:Condition.wait", "concurrent/futures/_base.py:Future.result", "/app/train.py:main"
MINE = "/app/train.py:main"


@x86
@pytest.mark.parametrize(
    ("kernel", "names", "seen"),
    [
        ("running\n", LOOP, None),
        ("", LOOP, None),
        (f"{WAIT4} 0x1f4 0x0 0x0", [MINE], Seen("wait4", "wait4", 500)),
        (f"{WAIT4} 0xffffffffffffffff 0x0", [MINE], Seen("wait4", "wait4")),
        (f"{WAIT4} 0x1f4 0x0", ["subprocess.py:Popen._try_wait", MINE], Seen("wait4", "Popen.wait", 500)),
        ("247 0x1 0x1f4 0x0", [MINE], Seen("wait4", "waitid", 500)),
        ("247 0x0 0x1f4 0x0", [MINE], Seen("wait4", "waitid")),
        (f"{FUTEX} 0x7f 0x189", LOOP, Seen("future", "Future.result")),
        (f"{FUTEX} 0x7f 0x189", [MINE], None),
        (f"{FUTEX} 0x7f 0x189", [MINE, *LOOP[:2]], None),
        (f"{FUTEX} 0x7f 0x189", ["/app/threading.py:Condition.wait"], None),
        (f"{NANOSLEEP} 0x7f", [MINE], Seen("sleep", "sleep")),
        (f"{NANOSLEEP} 0x7f", ["subprocess.py:Popen._wait", MINE], Seen("join", "Popen.wait")),
        (f"{POLL} 0x7f", [MINE], Seen("poll", "poll")),
        (f"{FUTEX} 0x7f", ["asyncio/base_events.py:BaseEventLoop._run_once"], None),
        (f"{READ} 0x3 0x7f", ["multiprocessing/connection.py:Connection._recv"], Seen("recv", "Connection.recv")),
        ("1 0x3 0x7f", [MINE], None),
    ],
)
def test_what_a_look_sees(kernel: str, names: list[str], seen: Seen | None) -> None:
    assert see(kernel, frames(*names)) == seen


@x86
def test_who_reads_a_file_works_and_who_reads_a_pipe_waits() -> None:
    ours, theirs = os.pipe()
    with open(__file__) as file:
        assert see(f"{READ} {file.fileno():#x} 0x7f", frames(MINE)) is None
    assert see(f"{READ} {ours:#x} 0x7f", frames(MINE)) == Seen("poll", "read")
    os.close(ours)
    os.close(theirs)


def test_without_the_kernel_only_a_function_that_waits_itself_is_a_wait() -> None:
    assert see(None, frames(*LOOP)) == Seen("future", "Future.result")
    assert see(None, frames("multiprocessing/queues.py:Queue.get", MINE)) is None, "it may unpickle"
    assert see(None, frames(MINE)) is None
    assert see(None, []) is None


VLLM = "/venv/site-packages/vllm/distributed"
QUEUE = f"{VLLM}/device_communicators/shm_broadcast.py"
READS, YIELDS = f"{QUEUE}:MessageQueue.acquire_read", f"{VLLM}/utils.py:sched_yield"
DEQUEUE = Seen("recv", "MessageQueue.dequeue", spins=True)


@x86
@pytest.mark.parametrize(
    ("kernel", "names", "seen"),
    [
        ("running\n", [YIELDS, f"{QUEUE}:SpinCondition.wait", READS, "contextlib.py:enter", MINE], DEQUEUE),
        (f"{FUTEX} 0x7f 0x189", [READS, MINE], DEQUEUE),  # it waits for the lock of the interpreter, which we have
        (f"{POLL} 0x7f", ["/x/zmq/sugar/poll.py:Poller.poll", f"{QUEUE}:SpinCondition.wait", READS], DEQUEUE),
        (None, [YIELDS, f"{QUEUE}:SpinCondition.wait", READS], DEQUEUE),
        ("running\n", [f"{QUEUE}:MessageQueue.acquire_read.<locals>.check", READS], DEQUEUE),
        ("running\n", [YIELDS, f"{QUEUE}:MessageQueue.acquire_write"], DEQUEUE._replace(where="MessageQueue.enqueue")),
        # near misses: it reads what came, logs, yields for another reason, or is another's function of that name
        ("running\n", [f"{QUEUE}:MessageQueue.dequeue", MINE], None),
        ("running\n", ["pickle.py:loads", f"{QUEUE}:MessageQueue.dequeue", MINE], None),
        ("running\n", ["logging/__init__.py:Handler.acquire", READS], None),
        ("running\n", [YIELDS, MINE], None),
        (None, [YIELDS, MINE], None),
        ("running\n", [MINE, READS], None),
        ("running\n", ["/app/shm_broadcast.py:MessageQueue.acquire_read"], None),
    ],
)
def test_who_turns_in_a_loop_until_a_message_comes_waits(
    kernel: str | None, names: list[str], seen: Seen | None
) -> None:
    assert see(kernel, frames(*names)) == seen


# --- one after another --------------------------------------------------------------------------------------------


class FakeSink:
    """As much of a session as the looks need."""

    looks_at_waits = True

    def __init__(self) -> None:
        self.events: list[Waits] = []
        self.notes: list[str] = []
        self.idle: int | None = 0

    def idle_since(self) -> int | None:
        return self.idle

    def emit(self, event: Waits) -> None:
        self.events.append(event)

    def note(self, text: str) -> None:
        self.notes.append(text)


class Looked:
    """A looker whose clock, and what it sees, are the test's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ns, self.used, self.seen, self.cpu = 0, 0, None, {}
        self.sink = FakeSink()
        sink: Any = self.sink
        self.looker = WaitLooker(sink, lambda: dict(self.cpu))
        monkeypatch.setattr(waits, "now", lambda: self.ns)
        monkeypatch.setattr(WaitLooker, "_see", lambda _: self.seen)
        monkeypatch.setattr(WaitLooker, "_turns", lambda _: self.seen is not None and self.seen.spins)
        monkeypatch.setattr(WaitLooker, "_used_so_far", lambda _: self.used)
        monkeypatch.setattr(WaitLooker, "_ran_so_far", lambda _: self.used)

    def until(self, seconds: float, seen: Seen | None) -> None:
        """Time goes on by a tenth of a second at once."""
        self.seen = seen
        while self.ns < seconds * S:
            self.ns += S // 10
            self.looker.look()

    def drawn(self) -> Iterator[tuple[float, float, str, int]]:
        """The slices that the recorder makes of it: begin, end, name, looks."""
        opened: Waits | None = None
        for event in self.sink.events:
            if opened is not None:
                yield round(opened.ns / S, 1), round(event.ns / S, 1), opened.name or "", event.before["looks"]
            opened = event if event.name is not None else None


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> Looked:
    return Looked(monkeypatch)


RECV, SLEEP = Seen("recv", "Connection.recv"), Seen("sleep", "sleep")


def test_a_wait_of_ten_minutes_is_one_record(looked: Looked) -> None:
    looked.until(600, RECV)
    looked.looker.stop()
    [(begin, end, name, number)] = looked.drawn()
    assert (begin, name) == (0, "Connection.recv")
    assert end >= 599.7
    assert 2300 <= number <= 2400


def test_each_change_is_a_record_and_work_is_none(looked: Looked) -> None:
    looked.until(2, RECV)
    looked.until(4, None)
    looked.until(6, SLEEP)
    looked.looker.stop()
    assert [(name, end - begin > 1.4) for begin, end, name, _ in looked.drawn()] == [
        ("Connection.recv", True), ("sleep", True)
    ]  # fmt: skip


def test_a_wait_for_a_thread_of_coldsteps_own_is_none_of_the_programs() -> None:
    over = threading.Event()
    thread = OwnThread("of-ours", over.wait)
    thread.start()
    seen: list[Seen | None] = []
    sink: Any = FakeSink()
    looker = WaitLooker(sink, dict)

    def look() -> None:
        time.sleep(0.3)
        seen.append(looker._see())
        over.set()

    other = threading.Thread(target=look)
    other.start()
    thread._is_over = True  # it has done its work, and is about to end
    thread.wait(10)
    other.join()
    assert seen == [None]


def test_where_nobody_could_look_nothing_was_waited_for(looked: Looked) -> None:
    looked.until(0.2, None)
    looked.ns = 2 * S  # a call held the interpreter's lock: the thread that looks could not run
    looked.until(3, RECV)
    looked.looker.stop()
    [(begin, _, name, _)] = looked.drawn()
    assert (begin, name) == (2.1, "Connection.recv")


def test_before_the_first_look_nobody_could_look_either(looked: Looked) -> None:
    looked.ns = S  # a call held the interpreter's lock from the begin of the trace on
    looked.until(1.1, RECV)
    looked.looker.stop()
    assert [(begin, end) for begin, end, *_ in looked.drawn()] == [(1.1, 1.1)]


def test_nobody_looks_while_there_is_a_phase_nor_a_quarter_of_a_second_after(looked: Looked) -> None:
    looked.sink.idle = None
    looked.until(2, RECV)
    looked.sink.idle = 2 * S
    looked.until(2.2, RECV)
    assert looked.sink.events == []
    looked.until(3, RECV)
    looked.sink.idle = None
    looked.until(4, RECV)
    [(begin, end, _, _)] = looked.drawn()
    assert begin == 2
    assert end <= 3


def test_a_phase_between_two_looks_divides_a_wait(looked: Looked) -> None:
    looked.until(2, RECV)
    looked.sink.idle = 2 * S + 1
    looked.until(4, RECV)
    looked.looker.stop()
    assert [begin for begin, *_ in looked.drawn()] == [0, 2]


@pytest.mark.parametrize(("used", "records"), [(0, 1), (S, 2)])
def test_a_gap_is_a_part_of_the_wait_only_where_the_thread_did_not_run(looked: Looked, used: int, records: int) -> None:
    looked.until(2, RECV)
    looked.ns += 3 * S // 2  # a busy machine, or a call into C that kept the interpreter's lock
    looked.used += used
    looked.until(5, RECV)
    looked.looker.stop()
    assert len(list(looked.drawn())) == records


def test_processor_time_is_that_of_the_wait(looked: Looked) -> None:
    looked.cpu = {7: 5 * S}
    looked.until(1, RECV)
    looked.cpu = {7: 6 * S, 8: S // 2}
    looked.until(2, RECV)
    looked.cpu = {}
    looked.until(3, RECV)
    looked.looker.stop()
    before = looked.sink.events[-1].before
    assert before["cpu"] == [[7, S], [8, S // 2]]
    assert 2.2 * S < before["within_ns"] < 2.8 * S


def test_who_turns_in_a_loop_uses_a_processor_and_waits_from_one_look_to_the_next(looked: Looked) -> None:
    def turn(until: float, seen: Seen | None) -> None:
        while looked.ns < until * S:
            looked.used += S // 10
            looked.until(looked.ns / S + 0.1, seen)

    turn(2, None)  # works
    turn(4, DEQUEUE)
    turn(6, None)
    turn(6.3, DEQUEUE)
    turn(8, RECV)  # nor does who uses a processor wait in a call of the kernel's
    looked.looker.stop()
    rows = [(name, end - begin) for begin, end, name, _ in looked.drawn()]
    assert rows[0][0] == "MessageQueue.dequeue"
    assert 1.4 < rows[0][1] <= 1.9
    assert sum(lasted for _, lasted in rows[1:]) < 0.3


def test_a_gap_in_the_looks_at_who_turns_in_a_loop_is_no_wait(looked: Looked) -> None:
    looked.until(2, DEQUEUE)
    looked.ns += 3 * S // 2  # whoever held the interpreter's lock: it may have been the thread itself
    looked.until(5, DEQUEUE)
    looked.looker.stop()
    assert len(list(looked.drawn())) == 2


@pytest.mark.parametrize("at", ["a look", "the end"])
def test_a_clock_that_fails_is_a_note_too(looked: Looked, monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    looked.until(2, RECV)

    def fails(_: WaitLooker) -> None:
        raise RuntimeError("the program has put its own in the place of os.open")

    monkeypatch.setattr(WaitLooker, "_used_so_far", fails)
    if at == "a look":
        looked.until(4, RECV)
    looked.looker.stop()
    [note] = looked.sink.notes
    assert note.startswith("coldstep stopped looking at what the program waits for: RuntimeError")


def test_what_goes_wrong_ends_the_looks_with_one_note(looked: Looked, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: object) -> None:
        raise ValueError("the kernel has another form")

    monkeypatch.setattr(WaitLooker, "_see", fails)
    looked.until(3, None)
    looked.looker.stop()
    assert looked.sink.notes == [
        "coldstep stopped looking at what the program waits for: ValueError: the kernel has another form."
    ]
    assert looked.sink.events == []


def test_a_time_limit_that_fires_at_the_end_reaches_the_program(
    looked: Looked, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked.until(2, RECV)

    def limit(number: int, frame: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, limit)
    monkeypatch.setattr(looked.sink, "emit", lambda _: signal.raise_signal(signal.SIGALRM))
    try:
        with pytest.raises(TimeoutError):
            looked.looker.stop()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert looked.sink.notes == []


def test_waits_that_never_end_to_change_are_looked_at_for_a_while_only(
    looked: Looked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waits, "_MOST", 3)
    for second in range(1, 9):
        looked.until(second, RECV if second % 2 else SLEEP)
    looked.looker.stop()
    assert looked.sink.notes == ["coldstep stopped looking at what the program waits for: it has waited 3 times."]
    assert [name for *_, name, _ in looked.drawn()] == ["Connection.recv", "sleep", "Connection.recv"]


def test_a_thread_that_has_ended_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[WaitLooker] = []
    sink: Any = FakeSink()
    thread = threading.Thread(target=lambda: made.append(WaitLooker(sink, dict)))
    thread.start()
    thread.join()
    monkeypatch.setattr(waits, "now", lambda: S)
    made[0].look()
    assert (sink.events, sink.notes) == ([], [])


# --- in a trace ---------------------------------------------------------------------------------------------------


def test_a_trace_in_which_the_looks_fail_says_it_once_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WaitLooker, "_codes", lambda _: [None])
    with coldstep.trace(tmp_path / "run.pftrace", collectors=["process"]):
        time.sleep(1)
    trace = coldstep.load(tmp_path / "run.pftrace")
    [note] = [note for note in trace.run.notes if "waits for" in note]
    assert note.startswith("coldstep stopped looking at what the program waits for: AttributeError")
    assert [row.state for row in trace.collectors] == ["attached"]
    assert trace.intervals[0].waiting == []


@pytest.mark.timing
def test_a_killed_process_has_the_wait_that_it_was_in(tmp_path: Path) -> None:
    program = (
        "import coldstep, time\n"
        "with coldstep.trace('run.pftrace', collectors=['process']):\n"
        "    print('now', flush=True)\n"
        "    time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(4)
        process.kill()
    [whole] = coldstep.load(tmp_path / "run.pftrace").intervals
    [wait] = whole.waiting
    assert (wait.how, wait.where) == ("sleep", "sleep")
    assert wait.ns > whole.wall_ns / 2


@pytest.mark.timing
def test_waits_are_drawn_below_the_steps_and_inside_of_their_time(tmp_path: Path, engine: Any) -> None:
    path = tmp_path / "run.pftrace"
    with coldstep.trace(path, collectors=["process"]), coldstep.step():
        began = now()
        time.sleep(1)
        ended = now()
    step = coldstep.load(path).intervals[1]
    assert [row.where for row in step.waiting] == ["sleep"]
    engine.assert_clean(path)
    [rows] = engine.query(
        path,
        "select s.name, s.dur from slice s join track t on t.id = s.track_id where t.name = 'Waits' order by s.ts",
    )
    assert [row["name"] for row in rows] == ["sleep"]
    assert rows[0]["dur"] <= ended - began
