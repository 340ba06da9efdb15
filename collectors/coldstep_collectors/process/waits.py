"""Looks at what the program waits for, four times a second while the thread that began the trace has no phase."""

from __future__ import annotations

import os
import platform
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import CodeType
from typing import NamedTuple

from coldstep.clock import now
from coldstep.collector import Sink
from coldstep.errors import first_line
from coldstep.events import Args, Waits
from coldstep.model import WaitingHow

_EVERY_NS = 250_000_000
_IDLE_NS = 250_000_000  # without a phase, and without a step that begins or ends
_BETWEEN_NS = 375_000_000  # two looks: what is longer was no pause, and nobody knows what happened in it
_ASLEEP_NS = 2_000_000_000  # unless the thread used no processor in it, and it is no longer than that
_RAN = 0.1  # of a gap between two looks: a thread that used so much of a processor did not only wait
_TOP = 5  # frames that a wait may have between the kernel and the program
_MOST = 5_000  # waits: a program that waits shortly, again and again, is not looked at for ever
_MOST_PROCESSES = 16  # whose processor time is kept of a wait, those that used most
_MOST_BYTES = 512
_ANY = 1 << 31  # a pid from there on is negative: the kernel was asked for any child, or for a group of them

SYSCALL = "/proc/self/task/{}/syscall"
"""Where the kernel shows in which call a thread is."""
_STDLIB = os.path.join(os.path.dirname(os.__file__), "")
_OURS = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")

_POLL = ("poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "epoll_pwait2", "accept", "accept4")
_READ = ("read", "recvfrom", "recvmsg")
_SLEEP = ("nanosleep", "clock_nanosleep")
_WAIT = ("wait4", "waitid")
# the kernel's numbers
_CALLS = {
    "x86_64": {
        0: "read", 45: "recvfrom", 47: "recvmsg", 7: "poll", 271: "ppoll", 23: "select", 270: "pselect6",
        232: "epoll_wait", 281: "epoll_pwait", 441: "epoll_pwait2", 43: "accept", 288: "accept4", 35: "nanosleep",
        230: "clock_nanosleep", 61: "wait4", 247: "waitid", 202: "futex",
    },
    "aarch64": {
        63: "read", 207: "recvfrom", 212: "recvmsg", 73: "ppoll", 72: "pselect6", 22: "epoll_pwait",
        441: "epoll_pwait2", 202: "accept", 242: "accept4", 101: "nanosleep", 115: "clock_nanosleep", 260: "wait4",
        95: "waitid", 98: "futex",
    },
}.get(platform.machine(), {})  # fmt: skip
_P_PID = 1  # the first argument of waitid that asks for one process


class _Frame(NamedTuple):
    """A function that waits: what for, its name for people, the kernel's calls it does that by, and whether it calls
    these itself."""

    how: WaitingHow
    words: str
    calls: tuple[str, ...]
    itself: bool = False


_LOCK = ("futex",)
_ANYHOW = (*_POLL, *_READ, *_LOCK)
_FRAMES: dict[str, dict[str, _Frame]] = {
    "subprocess.py": {
        "Popen._try_wait": _Frame("join", "Popen.wait", _SLEEP, True),
        "Popen._wait": _Frame("join", "Popen.wait", _SLEEP, True),
        "Popen.wait": _Frame("join", "Popen.wait", _SLEEP),
        "Popen._communicate": _Frame("recv", "Popen.communicate", _POLL),
        "Popen.communicate": _Frame("recv", "Popen.communicate", (*_POLL, *_READ, *_SLEEP)),
        "run": _Frame("recv", "subprocess.run", (*_POLL, *_READ, *_SLEEP)),
    },
    "multiprocessing/popen_fork.py": {
        "Popen.poll": _Frame("join", "Process.join", (), True),
        "Popen.wait": _Frame("join", "Process.join", _POLL),
    },
    "multiprocessing/popen_forkserver.py": {"Popen.poll": _Frame("join", "Process.join", _POLL)},
    "multiprocessing/process.py": {"BaseProcess.join": _Frame("join", "Process.join", _POLL)},
    "multiprocessing/connection.py": {
        "Connection._recv": _Frame("recv", "Connection.recv", _READ, True),
        "_ConnectionBase.recv": _Frame("recv", "Connection.recv", _READ),
        "_ConnectionBase.recv_bytes": _Frame("recv", "Connection.recv_bytes", _READ),
        "_ConnectionBase.poll": _Frame("poll", "Connection.poll", _POLL),
        "wait": _Frame("poll", "connection.wait", _POLL),
        "Listener.accept": _Frame("recv", "Listener.accept", _POLL),
    },
    "multiprocessing/queues.py": {
        "Queue.get": _Frame("recv", "Queue.get", _ANYHOW),
        "SimpleQueue.get": _Frame("recv", "SimpleQueue.get", _ANYHOW),
        "JoinableQueue.join": _Frame("future", "JoinableQueue.join", _LOCK),
    },
    "multiprocessing/managers.py": {"BaseProxy._callmethod": _Frame("recv", "a manager's reply", _READ)},
    "multiprocessing/synchronize.py": {
        "Condition.wait": _Frame("future", "Condition.wait", _LOCK, True),
        "Event.wait": _Frame("future", "Event.wait", _LOCK),
    },
    "multiprocessing/pool.py": {
        "ApplyResult.wait": _Frame("future", "ApplyResult.wait", _LOCK),
        "ApplyResult.get": _Frame("future", "ApplyResult.get", _LOCK),
        "Pool.map": _Frame("future", "Pool.map", _LOCK),
        "Pool.starmap": _Frame("future", "Pool.starmap", _LOCK),
        "Pool.apply": _Frame("future", "Pool.apply", _LOCK),
        "Pool.join": _Frame("join", "Pool.join", (*_LOCK, *_POLL)),
        "IMapIterator.next": _Frame("future", "Pool.imap", _LOCK),
    },
    "concurrent/futures/_base.py": {
        "Future.result": _Frame("future", "Future.result", _LOCK),
        "Future.exception": _Frame("future", "Future.exception", _LOCK),
        "wait": _Frame("future", "futures.wait", _LOCK),
        "as_completed": _Frame("future", "futures.as_completed", _LOCK),
        "Executor.map.<locals>.result_iterator": _Frame("future", "Executor.map", _LOCK),
    },
    "concurrent/futures/process.py": {
        "ProcessPoolExecutor.shutdown": _Frame("join", "Executor.shutdown", _LOCK),
        "_chain_from_iterable_of_lists": _Frame("future", "Executor.map", _LOCK),
    },
    "concurrent/futures/thread.py": {"ThreadPoolExecutor.shutdown": _Frame("join", "Executor.shutdown", _LOCK)},
    "threading.py": {
        "Condition.wait": _Frame("future", "Condition.wait", _LOCK, True),
        "Event.wait": _Frame("future", "Event.wait", _LOCK),
        "Barrier.wait": _Frame("future", "Barrier.wait", _LOCK),
        "Thread.join": _Frame("join", "Thread.join", _LOCK, sys.version_info >= (3, 13)),
        "Thread._wait_for_tstate_lock": _Frame("join", "Thread.join", _LOCK, True),
    },
    "queue.py": {"Queue.get": _Frame("recv", "Queue.get", _LOCK), "Queue.join": _Frame("future", "Queue.join", _LOCK)},
    "selectors.py": {
        f"{kind}.select": _Frame("poll", "selector.select", _POLL, True)
        for kind in ("SelectSelector", "_PollLikeSelector", "PollSelector", "EpollSelector")
    },
    "socket.py": {
        "socket.accept": _Frame("poll", "socket.accept", _POLL, True),
        "SocketIO.readinto": _Frame("recv", "a socket", (*_POLL, *_READ), True),
    },
    "asyncio/base_events.py": {
        "BaseEventLoop._run_once": _Frame("poll", "asyncio", _POLL),
        "BaseEventLoop.run_forever": _Frame("poll", "asyncio", _POLL),
    },
    "zmq/sugar/poll.py": {"Poller.poll": _Frame("poll", "Poller.poll", _POLL, True)},
}
"""By file, and the function's qualified name: the functions that wait, and those that call them."""


class Seen(NamedTuple):
    """What a look saw a thread wait for."""

    how: WaitingHow
    where: str
    pid: int | None = None


class WaitLooker:
    """Looks at the thread that makes it. A wait is handed over as it begins, and as it ends: a long one is no more
    than a short one. The first error ends all looks."""

    def __init__(self, sink: Sink, cpu: Callable[[], dict[int, int]]) -> None:
        """`cpu`: the processor time so far of each process below, by pid."""
        self._sink = sink
        self._cpu = cpu
        self._home, self._tid = threading.get_ident(), threading.get_native_id()
        self._clock = time.pthread_getcpuclockid(self._home)
        self._next = 0
        self._last = 0  # when the last look was; 0 where the thread has had a phase since
        self._used = 0  # by the thread until then, of a processor
        self._open: Seen | None = None
        self._looks = self._waits = 0
        self._below: dict[int, int] = {}
        self._since: dict[int, int] = {}
        self._goes_on = sink.looks_at_waits

    def look(self) -> None:
        """Look, if it is time to; may be called as often as one likes."""
        ns = now()
        if not self._goes_on or ns < self._next:
            return
        self._next = max(self._next + _EVERY_NS, ns)
        try:
            self._look(ns)
        except Exception as error:  # the program must not notice
            self._goes_on = False
            self._sink.note(f"coldstep stopped looking at what the program waits for: {first_line(error)}")

    def stop(self) -> None:
        """Hand over the end of a wait that goes on."""
        if self._goes_on:
            self._leave()
        self._goes_on = False

    def _look(self, ns: int) -> None:
        idle = self._sink.idle_since()
        if idle is None or self._last < idle:  # the thread has had a phase since
            self._leave()
            self._last, self._below = 0, {}
        if idle is None or ns - idle < _IDLE_NS:
            return
        used = self._used_so_far()
        if used is None:
            self.stop()
            return
        seen, below = self._see(), self._cpu()
        since = self._since_when(ns, idle, used, seen)
        if seen != self._open or since != self._last:
            self._leave()
            if seen is not None:
                self._begin(seen, since, dict(self._below) if self._last else below)
        self._looks += seen is not None
        self._below |= below
        self._last, self._used = ns, used

    def _used_so_far(self) -> int | None:
        """Processor time of the thread; None where it has ended."""
        try:
            return time.clock_gettime_ns(self._clock)
        except OSError:
            return None

    def _since_when(self, ns: int, idle: int, used: int, seen: Seen | None) -> int:
        """From when on a look counts: the last one, unless nobody could look for long."""
        before = self._last or idle
        gap = ns - before
        slept = seen is not None and seen == self._open and gap <= _ASLEEP_NS and used - self._used < _RAN * gap
        return before if gap <= _BETWEEN_NS or slept else ns - _EVERY_NS

    def _begin(self, seen: Seen, since: int, below: dict[int, int]) -> None:
        self._waits += 1
        if self._waits > _MOST:
            raise RuntimeError(f"{_MOST:,} waits are enough")
        self._open, self._looks, self._since = seen, 0, below
        args: Args = {"how": seen.how} | ({"pid": seen.pid} if seen.pid is not None else {})
        self._sink.emit(Waits(since, seen.where, args, {}))

    def _leave(self) -> None:
        if self._open is not None:
            used = {pid: ns - self._since.get(pid, 0) for pid, ns in self._below.items()}
            most = sorted(((ns, pid) for pid, ns in used.items() if ns > 0), reverse=True)[:_MOST_PROCESSES]
            before: Args = {"looks": self._looks, "cpu": [[pid, ns] for ns, pid in most]}
            self._sink.emit(Waits(self._last, None, {}, before))
            self._open = None

    def _see(self) -> Seen | None:
        try:
            kernel: str | None = _text(SYSCALL.format(self._tid))
        except OSError:  # this kernel does not show it, or the thread has ended
            kernel = None
        return see(kernel, self._codes())

    def _codes(self) -> list[CodeType]:
        """The code of the top frames, innermost first, but for our own. No frame is kept for longer than that takes:
        whoever lets go of a frame last, frees what the program's function held, on its own thread."""
        codes: list[CodeType] = []
        frame = sys._current_frames().get(self._home)
        while frame is not None and len(codes) < _TOP:
            if not frame.f_code.co_filename.startswith(_OURS):
                codes.append(frame.f_code)
            frame = frame.f_back
        return codes


def see(kernel: str | None, codes: Sequence[CodeType]) -> Seen | None:
    """What a thread waits for, by the text of its /proc/…/syscall (None: there is none) and the code of its top frames,
    innermost first. None where it works, and where it waits for the interpreter's lock or one of the program's."""
    known = list(_waiting(codes))
    if kernel is None:
        return Seen(known[-1].how, known[-1].words) if known and known[0].itself else None
    number, *arguments = kernel.split() or [""]
    call = _CALLS.get(int(number), "") if number.isdigit() else ""
    if call in _WAIT:
        return Seen("wait4", known[-1].words if known else call, _asked_for(call, arguments))
    outermost = next((row for row in reversed(known) if call in row.calls), None)
    if outermost is not None:
        return Seen(outermost.how, outermost.words)
    if call in _SLEEP:
        return Seen("sleep", "sleep")
    if call in _POLL or (call in _READ and arguments and _is_endless(int(arguments[0], 16))):
        return Seen("poll", call)
    return None


def _waiting(codes: Sequence[CodeType]) -> Iterator[_Frame]:
    """Those of the top frames that wait, innermost first, up to the first that is of no module of theirs."""
    for code in codes:
        functions = _FRAMES.get(_module_file(code.co_filename))
        if functions is None:
            return
        if code.co_qualname in functions:
            yield functions[code.co_qualname]


def _module_file(file: str) -> str:
    if file.startswith(_STDLIB):
        return file.removeprefix(_STDLIB)
    return file[at + 1 :] if (at := file.rfind("/zmq/")) >= 0 else ""


def _text(path: str) -> str:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # a third of what `open` takes
    try:
        return os.read(file, _MOST_BYTES).decode()
    finally:
        os.close(file)


def _asked_for(call: str, arguments: Sequence[str]) -> int | None:
    """The process that the kernel was asked to wait for; None for any."""
    numbers = [int(word, 16) for word in arguments[:2]]
    if call == "waitid":
        return numbers[1] if len(numbers) == 2 and numbers[0] == _P_PID else None
    return numbers[0] if numbers and 0 < numbers[0] < _ANY else None


def _is_endless(fd: int) -> bool:
    """Whether what is read comes from another process or machine, and not from a file."""
    try:
        return os.readlink(f"/proc/self/fd/{fd}").startswith(("pipe:", "socket:"))
    except OSError:
        return False
