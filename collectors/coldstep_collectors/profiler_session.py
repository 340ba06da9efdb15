"""Keeps a framework's profiler running while device traces are wanted, and holds what it saw, within a bound."""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Generic, Protocol, TypeVar

from coldstep._util.slotted import slotted
from coldstep.clock import Mapping, Mark, now
from coldstep.collector import DeviceSink, own_time
from coldstep.events import DeviceLine, DeviceSlice, DeviceTrace
from coldstep.pftrace.layout import CLOCK

MARK = "coldstep clock"
"""The name of the events that our clock and the profiler's both see."""

_MARKS = 5
_SESSION_NS = 250_000_000  # between two steps, a session of this age is ended and the next begun
_MAX_SLICES = 50_000  # written of one thread or stream
_MAX_SLICES_IN_ALL = 100_000
_PATIENCE_S = 10.0
_MAX_NAME = 100
_ONE = "only one can run at a time"

Saw = TypeVar("Saw")
Event = TypeVar("Event")
Brackets = list[tuple[int, int]]


class Profiler(Protocol[Saw]):
    """A framework's profiler, of which one session can run in a process."""

    @property
    def any_time(self) -> bool:
        """Whether a session may begin and end while other threads run what it sees."""

    @property
    def any_thread(self) -> bool:
        """Whether a session may end on another thread than it began on."""

    @property
    def unfinished(self) -> str | None:
        """What the program was within as the last session ended, where it could crash if another began before that
        ends."""

    def start(self, give_way: Callable[[], None]) -> bool:
        """Begin a session; False where one of the program's own runs.

        When the program is about to begin one later, until ours has ended, `give_way()` is called first.
        """

    def mark(self) -> AbstractContextManager[object]:
        """An event named MARK."""

    def stop(self, within: str) -> Saw | None:
        """End the session, `within` a span of that name which ends before the next begins: what it saw; None where it
        turns out that it could not begin."""

    def count(self, saw: Saw) -> int:
        """How many events that is."""

    def share(self, saw: Saw) -> float:
        """How much that is of what may be held, 1, from all sessions but the latest."""


@slotted
class Recorded(Generic[Saw]):
    """One session: what it saw, and our clock around each mark at its start and its end."""

    saw: Saw
    start: Brackets
    end: Brackets

    def mapping(self, marks: Sequence[tuple[int, int]]) -> Mapping | None:
        """The profiler's time in ours, given when the profiler saw each mark; None where it did not see all."""
        brackets = self.start + self.end
        if len(marks) != len(brackets):
            return None
        both = [Mark(*ours, *theirs) for ours, theirs in zip(brackets, sorted(marks), strict=True)]
        return Mapping(both[: len(self.start)], both[len(self.start) :])


class Recording(Generic[Saw]):
    """The sessions of one profiler, one after another.

    A profiler reports only at its session's end how much it holds. So sessions are short, and of all but the latest
    only so much is kept: the oldest sessions are dropped, and counted.
    """

    def __init__(self, collector: str, what: str, sink: DeviceSink, profiler: Profiler[Saw]) -> None:
        self._what = what
        self._began = f"as the program began a {what} session of its own: {_ONE}"
        self._too_late = f"as they were to begin, since a {what} session of the program's own was running: {_ONE}"
        self._sink = sink
        self._profiler = profiler
        self._give_way = sink.guarded(collector, self._gives_way)
        self._since = 0
        self._marked: Brackets = []
        self._running = False
        self._over = False
        self._held: deque[tuple[Recorded[Saw], float]] = deque()
        self.dropped = 0
        self._lock = threading.Lock()
        self._actor = 0
        self._thread = 0
        run, rest = (sink.guarded(collector, partial(self._alone, act)) for act in (self._run, self._pause))
        sink.on_device_trace(lambda: run(""), rest, any_time=profiler.any_time, run_within=run)

    def finish(self) -> list[Recorded[Saw]]:
        """End the last session: all that is held, in the order of time."""
        self._alone(self._rest)
        return [recorded for recorded, _ in self._held]

    def _alone(self, act: Callable[..., None], *args: str | None) -> None:
        """Call `act(*args)` while no other thread begins or ends a session."""
        if self._actor == threading.get_ident():  # our own session looks to the profiler as the program's would
            return
        if not self._lock.acquire(timeout=_PATIENCE_S):  # not for ever: a fork may have copied it held
            return
        self._actor = threading.get_ident()
        try:
            act(*args)
        finally:
            self._actor = 0
            self._lock.release()

    def _run(self, within: str | None) -> None:
        stays = within is None or now() - self._since < _SESSION_NS or not self._may_end()
        if self._over or (self._running and stays):
            return
        with own_time(self._sink.emit, CLOCK):
            ends = self._running
            if ends:
                self._stop(within or "")
            if not (ends and within):
                self._start()

    def _pause(self) -> None:
        if self._may_end():
            self._rest()

    def _may_end(self) -> bool:
        return self._profiler.any_thread or self._thread == threading.get_ident()

    def _rest(self) -> None:
        if self._running:
            with own_time(self._sink.emit, CLOCK):
                self._stop("")

    def _gives_way(self) -> None:
        self._alone(self._end_for_theirs)

    def _end_for_theirs(self) -> None:
        self._rest()
        if not self._over:
            self._end(self._began)

    def _end(self, why: str) -> None:
        self._over = True
        self._sink.note(f"Device traces of coldstep's own ended {why}.")

    def _start(self) -> None:
        if (within := self._profiler.unfinished) is not None:
            self._end(
                f"early: a session ended within '{within[:_MAX_NAME]}', and where the next begins before that ends, "
                f"this version's {self._what} can crash the program (PyTorch 2.14's does not)"
            )
            return
        if not self._profiler.start(self._give_way):
            self._end(self._too_late)
            return
        self._running, self._since, self._thread = True, now(), threading.get_ident()
        self._marked = self._mark()

    def _stop(self, within: str) -> None:
        end = self._mark()
        self._running = False
        try:
            saw = self._profiler.stop(within)
        except (KeyboardInterrupt, SystemExit):  # not to be taken for a program in which nothing ran
            self._end("early, as the program was interrupted while one of their sessions ended")
            raise
        if saw is None:
            self._end(self._too_late)
            return
        self._held.append((Recorded(saw, self._marked, end), self._profiler.share(saw)))
        while len(self._held) > 1 and sum(share for _, share in self._held) > 1:
            recorded, _ = self._held.popleft()
            self.dropped += self._profiler.count(recorded.saw)

    def _mark(self) -> Brackets:
        brackets = []
        for _ in range(_MARKS):
            before = now()
            with self._profiler.mark():
                pass
            brackets.append((before, now()))
        return brackets


def thread_name(native_id: int) -> str:
    """What Python calls a thread, else the system (a thread of autograd's), else its number."""
    for thread in threading.enumerate():
        if thread.native_id == native_id:
            return thread.name
    try:
        with open(f"/proc/self/task/{native_id}/comm") as file:
            return file.read().strip()
    except OSError:
        return str(native_id)


def _by_number(name: str) -> list[str | int]:
    """What sorts "stream 7" before "stream 20"."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]


class Lines:
    """The lines of a `DeviceTrace` in the making: over their bound, the oldest slices are dropped and counted."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, str, object], list[DeviceSlice]] = {}
        self.executed: list[tuple[int, int]] = []
        self.clock_bound_ns = 0
        self.dropped = 0

    def add(
        self, kind: str, name: str, key: object, events: Sequence[Event], slice_of: Callable[[Event], DeviceSlice]
    ) -> None:
        """More of the line that `key` distinguishes from others of its name: events in the order of time."""
        if events:
            over = max(0, len(events) - _MAX_SLICES)
            self.dropped += over
            self._lines.setdefault((kind, name, key), []).extend(map(slice_of, events[over:]))

    def trace(self, source: str) -> DeviceTrace:
        """All of it."""
        lines = []
        since = self._since()
        for (kind, name, _), slices in sorted(self._lines.items(), key=lambda row: (row[0][0], _by_number(row[0][1]))):
            kept = [piece for piece in slices[-_MAX_SLICES:] if piece.ns >= since]
            self.dropped += len(slices) - len(kept)
            if kept:
                lines.append(DeviceLine(kind, name, kept))
        return DeviceTrace(now(), source, self.clock_bound_ns, lines, self.executed, self.dropped)

    def _since(self) -> int:
        """From when on all lines together hold no more than they may."""
        begins = sorted(piece.ns for slices in self._lines.values() for piece in slices[-_MAX_SLICES:])
        return begins[-_MAX_SLICES_IN_ALL] if len(begins) > _MAX_SLICES_IN_ALL else 0
