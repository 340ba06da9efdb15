"""Looks at what the program waits for, four times a second while the thread that began the trace has no phase."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import islice
from types import CodeType
from typing import TYPE_CHECKING

from coldstep._util.threads import OwnThread
from coldstep.clock import now
from coldstep.collector import ProcessSink
from coldstep.errors import first_line, our_errors
from coldstep.events import Args, Waits
from coldstep_collectors.process.thread_stack import stack_of

if TYPE_CHECKING:
    from coldstep_collectors.process.wait_calls import Seen

_EVERY_NS = 250_000_000
_IDLE_NS = 250_000_000  # without a phase, and without a step that begins or ends
_BETWEEN_NS = 375_000_000  # two looks: what is longer was no pause, and nobody knows what happened in it
_ASLEEP_NS = 2_000_000_000  # unless the thread used no processor in it, and it is no longer than that
_HELD_BACK_NS = 250_000_000  # between two looks at the clock: what is longer was no pause either
_RAN = 0.1  # of a gap between two looks: a thread that used so much of a processor did not only wait
_TICKS = 16  # looks at the thread's clock that are kept: a second and a half
_TOP = 5  # frames that a wait may have between the kernel and the program
_MOST = 5_000  # waits: a program that waits shortly, again and again, is not looked at for ever
_MOST_PROCESSES = 16  # whose processor time is kept of a wait, those that used most
_MOST_BYTES = 512  # of what the kernel shows of a call
_TURNS_IN = "vllm.distributed.device_communicators.shm_broadcast"  # the module of all that is known to turn in a loop
SYSCALL = "/proc/self/task/{}/syscall"
"""Where the kernel shows in which call a thread is."""
SCHEDULED = "/proc/self/task/{}/schedstat"
"""Where it shows how long a thread has run, and stood in line."""
_OURS = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")


class WaitLooker:
    """Looks at the thread that makes it. A wait is handed over as it begins, and as it ends: a long one is no more
    than a short one. The first error ends all looks."""

    def __init__(self, sink: ProcessSink, cpu: Callable[[], dict[int, int]]) -> None:
        """`cpu`: the processor time so far of each process below, by pid."""
        self._sink = sink
        self._cpu = cpu
        self._home, self._tid = threading.get_ident(), threading.get_native_id()
        self._clock = time.pthread_getcpuclockid(self._home)
        self._next = 0
        self._last = 0  # when the last look was; 0 where the thread has had a phase since
        self._used = 0  # by the thread until then, of a processor
        self._ticks: deque[tuple[int, int]] = deque(maxlen=_TICKS)  # when, and how much it had used by then
        self._open: Seen | None = None
        self._turning = 0  # since when each tick has seen the thread turn in a loop to wait
        self._looks = self._waits = 0
        self._below: dict[int, int] = {}  # processor time at the last look
        self._since: dict[int, int] = {}  # the same as the wait that is open was first looked at, and when that was
        self._since_ns = 0
        self._goes_on = sink.looks_at_waits

    def look(self) -> None:
        """Look, if it is time to; may be called as often as one likes."""
        ns = now()
        if not self._goes_on:
            return
        try:
            if (ran := self._ran_so_far()) is None:
                self.stop()
                return
            held_back = bool(self._ticks) and ns - self._ticks[-1][0] > _HELD_BACK_NS
            self._ticks.append((ns, ran))
            self._turning = ((not held_back and self._turning) or ns) if self._turns() else 0
            if ns >= self._next:
                self._next = max(self._next + _EVERY_NS, ns)
                self._look(ns)
        except BaseException as error:  # the program must not notice, and no thread of ours end without a word
            self._end(first_line(error) if isinstance(error, Exception) else type(error).__name__)

    def _end(self, why: str) -> None:
        self._goes_on = False
        self._sink.note(f"coldstep stopped looking at what the program waits for: {why}.")

    def stop(self) -> None:
        """Hand over the end of a wait that goes on."""
        goes_on, self._goes_on = self._goes_on, False
        try:
            if goes_on:
                self._leave(now())
        except our_errors() as error:
            self._end(first_line(error))

    def _look(self, ns: int) -> None:
        idle = self._sink.idle_since()
        if idle is None or self._last < idle:  # the thread has had a phase since
            self._leave(ns)
            self._last, self._below = 0, {}
        if idle is None or ns - idle < _IDLE_NS:
            return
        if (used := self._used_so_far()) is None:
            self.stop()
            return
        seen, below = self._see(), self._cpu()
        since = self._since_when(ns, idle, used, seen)
        if seen != self._open or since != self._last:
            self._leave(ns if seen is None else self._last)
            if seen is not None and self._waits == _MOST:
                self._end(f"it has waited {_MOST:,} times")
                return
            if seen is not None:
                self._begin(seen, since)
                self._since, self._since_ns = (self._below, self._last) if self._last else (below, ns)
        self._looks += seen is not None
        self._below = self._below | below
        self._last, self._used = ns, used

    def _used_so_far(self) -> int | None:
        """For how long the thread has run, or stood in line for a processor; None where it has ended."""
        try:
            ran, stood, _ = _text(SCHEDULED.format(self._tid)).split()
            return int(ran) + int(stood)
        except (OSError, ValueError):  # this kernel does not show it, or the thread has ended
            return self._ran_so_far()

    def _ran_so_far(self) -> int | None:
        """For how long the thread has run; None where it has ended. It opens no file, which would be the program's own
        to close by the time that we do, where that closes all."""
        try:
            return time.clock_gettime_ns(self._clock)
        except OSError:
            return None

    def _since_when(self, ns: int, idle: int, used: int, seen: Seen | None) -> int:
        """From when on a look counts: the last one, or the begin of the stretch, unless nobody could look for long. It
        never counts for longer than the thread has used no processor: what it did with that was no wait, unless it
        turned in a loop to wait."""
        if self._last:
            first, before, used_before = self._last, self._last, self._used
        else:
            first = idle
            before, used_before = next(((at, had) for at, had in self._ticks if at >= idle), (ns, 0))
            used = self._ticks[-1][1]
        gap, ran = ns - before, max(0, used - used_before)
        if seen is not None and seen.spins:
            return max(first, self._turning or ns)  # it used the processor to wait
        if ran >= _RAN * gap and gap:
            return max(before, ns - max(0, gap - ran))
        slept = seen is not None and seen == self._open and gap <= _ASLEEP_NS
        if ns - first <= _BETWEEN_NS or slept:
            return first
        # where this thread could not run either, a call may have held the interpreter's lock: that is no wait
        held_back = len(self._ticks) == 1 or ns - self._ticks[-2][0] > _HELD_BACK_NS
        return ns if held_back else ns - _EVERY_NS

    def _begin(self, seen: Seen, since: int) -> None:
        self._waits += 1
        self._open, self._looks = seen, 0
        args: Args = {"how": seen.how} | ({"pid": seen.pid} if seen.pid is not None else {})
        self._sink.emit(Waits(since, seen.where, args, {}))

    def _leave(self, ns: int) -> None:
        """The wait that is open has ended by `ns`. It reaches beyond the last look for no longer than the thread has
        used no processor since."""
        if self._open is None:
            return
        now_used, gap = self._used_so_far(), ns - self._last
        ran = max(0, now_used - self._used) if now_used is not None else gap
        reach = max(0, gap - ran) if gap <= _BETWEEN_NS else 0
        used = {pid: ns - self._since.get(pid, 0) for pid, ns in self._below.items()}
        most = sorted(((ns, pid) for pid, ns in used.items() if ns > 0), reverse=True)[:_MOST_PROCESSES]
        before: Args = {"looks": self._looks, "within_ns": self._last - self._since_ns, "reach_ns": reach}
        before |= {"cpu": [[pid, ns] for ns, pid in most]}
        self._sink.emit(Waits(self._last, None, {}, before))
        self._open = None

    def _turns(self) -> bool:
        """Whether the thread turns in a loop to wait: asked at each tick, as it may work between two looks."""
        if _TURNS_IN not in sys.modules or self._sink.idle_since() is None:
            return False
        from coldstep_collectors.process.wait_calls import see

        seen = see(None, self._codes())
        return seen is not None and seen.spins

    def _see(self) -> Seen | None:
        from coldstep_collectors.process.wait_calls import see  # a process that never waits does without its tables

        try:
            kernel: str | None = _text(SYSCALL.format(self._tid))
        except OSError:  # this kernel does not show it, or the thread has ended
            kernel = None
        codes = self._codes()
        return see(kernel, codes) if OwnThread.wait.__code__ not in codes else None  # for a thread of ours, at the end

    def _codes(self) -> list[CodeType]:
        """The code of the top frames, innermost first, but for our own."""
        codes = (code for code, _ in stack_of(self._home))
        return list(islice((code for code in codes if not code.co_filename.startswith(_OURS)), _TOP))


def _text(path: str) -> str:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # a third of what `open` takes
    try:
        return os.read(file, _MOST_BYTES).decode()
    finally:
        os.close(file)
