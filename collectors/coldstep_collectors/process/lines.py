"""Samples at which of the user's lines the program is, until its first step has ended: all else has phases."""

from __future__ import annotations

import threading
import time
from queue import Empty, SimpleQueue
from types import CodeType, FrameType
from typing import Any

from coldstep._util.threads import OwnThread
from coldstep.clock import now
from coldstep.collector import AheadSink, Foreseen
from coldstep.events import Counter, Lines
from coldstep.pftrace.layout import READ
from coldstep.places import Places, location, starts_process
from coldstep_collectors.proc import read_bytes
from coldstep_collectors.process.thread_stack import line_of, stack_of

_EVERY_S, _SELDOM_S = 0.05, 0.25
_SHARE = 0.001  # of a processor: where a look takes long, there are fewer
_MOST = 5_000  # samples: a program without a step is not sampled for ever
_DEEPEST = 16  # lines of one stack that are kept, the outermost
_LEAST_READ = 1 << 20  # bytes
_LATE = 1.5  # times the pause: what is longer was no pause

Stack = tuple[tuple[str, int, str], ...]
"""File, line and function of each frame: texts, as to hash a code object takes as long as all else."""


class LineSampler:
    """Looks at the thread that began the trace, 20 times a second; 4 times where a look takes long."""

    def __init__(self, sink: AheadSink) -> None:
        self._sink = sink
        self._home = threading.get_ident()
        self._places = Places()
        self._at: dict[Stack, list[tuple[int, int]]] = {}
        self._before: tuple[list[tuple[CodeType, int]], Stack] = [], ()  # who waits is where they were at the last look
        self._taken = self._held_ns = self._read = 0
        self._requests: SimpleQueue[None] = SimpleQueue()
        self._thread = OwnThread("coldstep-lines", sink.guarded("process", self._run))

    def start(self) -> None:
        """Begin; it ends with the first step, or when it is stopped."""
        self._sink.on_first_step(self._end)
        self._thread.start()

    def stop(self) -> None:
        """Take no further sample, and hand over what there is."""
        self._requests.put(None)
        self._thread.wait(5)

    def _end(self, _: FrameType, __: Any) -> list[Foreseen]:
        self._requests.put(None)
        return []

    def _run(self) -> None:
        last, pause, usual = now(), _EVERY_S, 0.0
        while self._taken < _MOST:
            try:
                self._requests.get(timeout=pause)
                break
            except Empty:
                ns, before = now(), time.thread_time()
                self._count_reads(ns)
                self._sample(ns, ns - last, round(pause * 1e9 * _LATE))
                took = time.thread_time() - before
                usual = (3 * usual + min(took, 2 * usual or _EVERY_S * _SHARE)) / 4  # one slow look is no habit
                last, pause = ns, min(_SELDOM_S, max(_EVERY_S, usual / _SHARE))
        places = [([location(*place) for place in stack], at) for stack, at in self._at.items()]
        self._at.clear()
        if places:
            self._sink.emit(Lines(now(), self._held_ns, places))

    def _sample(self, ns: int, elapsed: int, most: int) -> None:
        # a call into C that keeps the interpreter's lock lets nobody look: what it did meanwhile is not known
        self._held_ns += max(0, elapsed - most)
        places = stack_of(self._home)
        stack = self._before[1] if places == self._before[0] else self._users_lines(places)
        self._before = places, stack
        if stack:
            self._at.setdefault(stack, []).append((ns, min(elapsed, most)))
            self._taken += 1

    def _count_reads(self, ns: int) -> None:
        """Which line it is that first touches mapped weights shows only in what is read from one look to the next."""
        if (read := read_bytes()) is not None and read - self._read >= _LEAST_READ:
            self._read = read
            self._sink.emit(Counter(ns, READ, read, "bytes"))

    def _users_lines(self, places: list[tuple[CodeType, int]]) -> Stack:
        """Of a stack, innermost first: the user's, outermost first."""
        if places and starts_process(places[-1][0]):
            places = places[:-1]
        users = [
            (code.co_filename, line_of(code, instruction), code.co_qualname)
            for code, instruction in places
            if self._places.is_users(code.co_filename)
        ]
        return tuple(reversed(users[-_DEEPEST:]))
