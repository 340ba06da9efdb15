"""Which calls of the kernel, and which functions of the standard library, a thread waits in."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from types import CodeType
from typing import TYPE_CHECKING

from coldstep.named_tuple import NamedTuple

if TYPE_CHECKING:
    from coldstep.model import WaitingHow

_ANY = 1 << 31  # a pid from there on is negative: the kernel was asked for any child, or for a group of them
_STDLIB = os.path.join(os.path.dirname(os.__file__), "")
_PACKAGES = ("/zmq/", "/vllm/")
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
}.get(os.uname().machine, {})  # fmt: skip
_P_PID = 1  # the first argument of waitid that asks for one process


class _Frame(NamedTuple):
    """A function that waits: what for, its name for people, the kernel's calls it does that by, whether it calls
    these itself, and whether it turns in a loop until what it waits for is there."""

    how: WaitingHow
    words: str
    calls: tuple[str, ...]
    itself: bool = False
    spins: bool = False


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
    "vllm/distributed/utils.py": {"sched_yield": _Frame("recv", "sched_yield", ())},
    "vllm/distributed/device_communicators/shm_broadcast.py": {
        # they turn until a message is there, and later poll: what the kernel shows is none of it
        "MessageQueue.acquire_read": _Frame("recv", "MessageQueue.dequeue", (), spins=True),
        "MessageQueue.acquire_write": _Frame("recv", "MessageQueue.enqueue", (), spins=True),
    },
}
"""By file, and the function's qualified name: the functions that wait, and those that call them."""


class Seen(NamedTuple):
    """What a look saw a thread wait for."""

    how: WaitingHow
    where: str
    pid: int | None = None
    spins: bool = False
    """Whether it may use a processor meanwhile."""


def see(kernel: str | None, codes: Sequence[CodeType]) -> Seen | None:
    """What a thread waits for, by the text of its /proc/…/syscall (None: there is none) and the code of its top frames,
    innermost first. None where it works, and where it waits for the interpreter's lock or one of the program's."""
    known = list(_waiting(codes))
    if (turns := next((row for row in known if row.spins), None)) is not None:
        return Seen(turns.how, turns.words, spins=True)
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
        if (functions := _FRAMES.get(_module_file(code.co_filename))) is None:
            return
        if code.co_qualname in functions:
            yield functions[code.co_qualname]


def _module_file(file: str) -> str:
    if file.startswith(_STDLIB):
        return file.removeprefix(_STDLIB)
    return next((file[at + 1 :] for package in _PACKAGES if (at := file.rfind(package)) >= 0), "")


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
