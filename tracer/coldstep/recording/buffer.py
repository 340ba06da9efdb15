"""Per-thread buffers that take events without a lock, and the one thread that drains them to disk.

All writing happens on the drain thread: a signal (Ctrl-C) is never delivered there, so no event is half written,
and there is no lock for a fork to catch held.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from _thread import RLock
from collections import deque
from collections.abc import Callable
from importlib import import_module
from operator import itemgetter
from os import getpid
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from coldstep._util.slotted import slotted
from coldstep._util.stderr import say
from coldstep._util.threads import OwnThread
from coldstep.clock import now
from coldstep.errors import contained, first_line
from coldstep.events import Begin, Calls, Counter, End, Event, Note, Slice, Within, is_worth_a_file

if TYPE_CHECKING:
    from coldstep.candidates import Candidate
    from coldstep.recording.recorder import Recorder

_DRAIN_EVERY_S = 0.25
_BURST_NS = 2_000_000
_MAX_BULK_EVENTS = 100_000
_BULK = frozenset({Slice, Counter})
_PATIENCE_S = 30.0
_loaded_as_it_opens = {"coldstep.recording.recorder", "coldstep.job.lost", "coldstep.job.parts"}


@slotted
class Thread:
    """A thread that emits events."""

    tid: int
    """The operating system's number."""
    name: str
    """As Python has it."""


class Buffer:
    """One thread's events; appended by that thread, popped by the drain."""

    __slots__ = ("_pythons", "bulk", "dropped", "ledger", "thread")

    def __init__(self) -> None:
        self._pythons = threading.current_thread()
        self.thread = Thread(threading.get_native_id(), self._pythons.name)
        self.ledger: deque[Event] = deque()
        self.bulk: deque[Event] = deque(maxlen=_MAX_BULK_EVENTS)
        self.dropped = 0

    @property
    def is_alive(self) -> bool:
        """Whether its thread is."""
        return self._pythons.is_alive()


class Buffers:
    """The buffers of all threads of one session: they take events while its trace is on, and in its process alone.

    Those of a part of a job are `held` until there is something worth a file: then `speak()` is called. Those of
    a fork's child are asleep until any hook or mark runs in it: then `wake()` makes all its own, with when it began.
    """

    def __init__(self, speak: Callable[[], None], wake: Callable[[int], None], *, held: bool) -> None:
        self.speak, self._wake = speak, wake
        self._slept: RLock | None = None  # made in a fork's child, where no thread of its parent's can hold it
        self._is_asleep, self._forked_ns = False, 0
        self._notes: set[str] = set()
        self.is_on = False
        """Whether the trace has begun, and has not ended."""
        self.is_fork = False
        """Whether this process is a fork's child that is of the job."""
        self._begin(held=held)

    def _begin(self, *, held: bool) -> None:
        self._pid = getpid()
        self.held = [None] if held else []
        """As long as there was nothing to say; a list, of which one of two threads pops."""
        self._mine = threading.local()
        self.all: list[Buffer] = []
        self.candidates: list[Candidate] = []
        """What may be the program's steps: the hooks note its calls in it."""

    def begin_anew(self) -> None:
        """In a fork's child that is of the job: it has recorded nothing so far."""
        self._begin(held=True)
        self.is_fork = True

    def release(self) -> bool:
        """From now on all is written; False where that is so already, or another thread is faster."""
        try:
            self.held.pop()
        except IndexError:
            return False
        return True

    def fall_asleep(self, *, for_ever: bool) -> None:
        """In a fork's child, which mostly records nothing: each object that it writes to costs it a page. One that is
        of no job is inert."""
        self._is_asleep = not for_ever and (self.is_on or self._is_asleep)
        self._slept = RLock() if self._is_asleep else None
        self._forked_ns, self.is_on = now(), False

    def stay_asleep(self) -> None:
        """The block has ended: nothing of it is recorded in this fork's child."""
        self._is_asleep = False

    def awake(self) -> bool:
        """Whether the trace is on here. For hooks, before they use what they know of the process: in a fork's child
        that is its parent's until this has been asked."""
        return self.is_on or (self._slept is not None and self._woken(self._slept))

    def _woken(self, slept: RLock) -> bool:
        with slept:
            if self._is_asleep:
                self._is_asleep = False  # a signal's handler in the midst of this sees a trace that is off
                self._wake(self._forked_ns)
                self.is_on = True
        return self.is_on and getpid() == self._pid

    def in_own_process(self) -> bool:
        """False after the trace, and in a fork's child that is of no job: there this copy of the session is inert."""
        if self.is_on and getpid() == self._pid:
            return True
        if self._slept is not None:
            return self._woken(self._slept)
        self.is_on = False
        return False

    def in_parent(self) -> bool:
        """Whether this is the process that the trace is of, and no fork's child."""
        return getpid() == self._pid

    def emit(self, event: Event) -> None:
        """Keep `event`, if the trace is on here. See `coldstep.collector.Sink`."""
        if self.in_own_process() and (not self.held or self._keeps(event)):
            self.append(event)

    def _keeps(self, event: Event) -> bool:
        """Whether to keep an event of a process that has said nothing so far. A fork's child may live long so."""
        if is_worth_a_file(event):
            self.speak()
        return not self.held or not self.is_fork

    def note(self, text: str) -> None:
        """Say `text` once on the trace."""
        if text not in self._notes:
            self._notes.add(text)
            self.emit(Note(now(), text))

    def append(self, event: Event) -> Buffer:
        """Keep `event` until it is drained, in this thread's buffer; takes no lock."""
        try:
            buffer: Buffer = self._mine.buffer
        except AttributeError:
            buffer = self._mine.buffer = Buffer()
            self.all.append(buffer)
        if type(event) in _BULK:
            if len(buffer.bulk) == _MAX_BULK_EVENTS:
                buffer.dropped += 1
            buffer.bulk.append(event)
        else:
            buffer.ledger.append(event)
        return buffer

    def take(self) -> list[tuple[int, Event, Thread]]:
        """What has been appended so far, out of the buffers and in the order of time, each thread's own order kept."""
        taken: list[tuple[int, Event, Thread]] = []
        for buffer in list(self.all):
            thread, latest = buffer.thread, 0
            for _ in range(len(buffer.ledger)):
                event = buffer.ledger.popleft()
                if type(event) is Within:
                    for each in _told(event):
                        latest = max(each.ns, latest)
                        taken.append((latest, each, thread))
                    continue
                # a thread's own order counts before its stamps, which a garbage collection can swap
                latest = event.ns if event.ns > latest else latest
                taken.append((latest, event, thread))
            for _ in range(len(buffer.bulk)):
                event = buffer.bulk.popleft()
                taken.append((event.ns, event, thread))
        for candidate in list(self.candidates):
            if spans := candidate.take():
                calls = Calls(max(end for _, end in spans), candidate, spans)
                taken.append((calls.ns, calls, Thread(candidate.tid, candidate.thread)))
        taken.sort(key=itemgetter(0))  # stable, and quick where one thread wrote it all
        return taken

    @property
    def dropped_bulk(self) -> int:
        """How many bulk events had to make room."""
        return sum(buffer.dropped for buffer in self.all) + sum(row.dropped for row in self.candidates)


def _told(event: Within) -> list[Begin | End]:
    try:
        return event.events()
    except Exception:  # what cannot be told is not drawn
        return []


class Drain:
    """The thread that hands events to the recorder: every 250 ms, in bursts of at most 2 ms, and when asked.

    It records with what `begin()` makes: where `hold_s` is given, only once anything is asked of it but to stop, or so
    many seconds are over. While `busy()`, it writes a heartbeat every 250 ms. Whenever it has written, it calls
    `look()`; once the file takes no more, `fails()`, with why.
    """

    recorder: Recorder
    """What it records with, once it has begun; in a fork's child until then its parent's."""

    def __init__(
        self,
        buffers: Buffers,
        begin: Callable[[], Recorder],
        busy: Callable[[], bool],
        look: Callable[[], None],
        fails: Callable[[str], None],
        hold_s: float = 0.0,
    ) -> None:
        self.buffers = buffers
        self._begin, self._busy, self._look, self._fails = begin, busy, look, fails
        self._set_up(hold_s)

    def _set_up(self, hold_s: float) -> None:
        self._hold_s = hold_s
        # SimpleQueue's put may be called from a finalizer or signal handler; Event.set may hang there
        self._requests: SimpleQueue[SimpleQueue[None] | Callable[[], object] | str | None] = SimpleQueue()
        self._begun: SimpleQueue[Exception | None] = SimpleQueue()
        self._last: Callable[[], object] | None = None
        self._at_last = False
        self.error: str | None = None
        self.lost = 0
        self._thread = OwnThread("coldstep-drain", self._run)

    def begin_anew(self) -> None:
        """In a fork's child, which has its own file and none of its parent's threads."""
        self.buffers.begin_anew()
        self._set_up(hold_s=0.0)

    def start(self) -> None:
        """Begin, and raise what `begin()` raises, which is called on the drain thread; RuntimeError where no thread can
        begin."""
        self.begin()
        if (error := self._begun.get()) is not None:
            raise error

    def begin(self) -> None:
        """Begin, and do not wait for that. Raises RuntimeError where no thread can begin."""
        self._thread.start()

    def wake(self) -> None:
        """Ask for a write soon; only that, so that any hook may."""
        if self.buffers.is_on:
            self._requests.put(None)

    def say(self, text: str) -> None:
        """Print `text` on stderr from the drain thread, since a hook must not."""
        self._requests.put(text)

    def afterwards(self, do: Callable[[], None]) -> None:
        """Have `do()`, which must not raise, called on the drain thread when all that this thread has appended is
        written: for hooks, which must neither wait nor write."""
        if self.buffers.is_on:
            self._requests.put(do)

    def flush(self) -> None:
        """Return when all that this thread has appended is written."""
        reply: SimpleQueue[None] = SimpleQueue()
        self._requests.put(reply)
        deadline = time.monotonic() + _PATIENCE_S
        while self._thread.is_going_on and time.monotonic() < deadline:
            with contextlib.suppress(Empty):
                reply.get(timeout=0.5)
                return

    def settle(self) -> None:
        """Before a fork whose child is of the job: it must know all that was compiled here. What this thread imports
        now would never end there."""
        for name in [*_loaded_as_it_opens]:
            if name in sys.modules:
                import_module(name)
                _loaded_as_it_opens.discard(name)
        for buffer in self.buffers.all:
            if buffer.ledger and not self.buffers.held:
                self.flush()
                return

    def stop(self, last: Callable[[], object], within_s: float = _PATIENCE_S) -> None:
        """Write the rest, do `last()` on the drain thread, where nothing can interrupt it, and end the thread. May be
        called again where it was interrupted itself."""
        if self._last is None:
            self._last = last
            self._requests.put(last)
        deadline = time.monotonic() + within_s
        while self._thread.is_going_on and (self._at_last or time.monotonic() < deadline):
            self._thread.wait(min(0.5, within_s))
        if not self._thread.is_going_on:
            self._thread.wait(within_s)

    def _run(self) -> None:
        request = self._next(self._hold_s) if self._hold_s else None
        if request is not None and request is self._last:  # nothing was to be recorded
            self._last()
            return
        try:
            self.recorder = self._begin()
        except Exception as error:
            self.buffers.is_on = False
            self._begun.put(error)
        else:
            self._begun.put(None)
            self._requests.put(request)
            self._work()

    def _next(self, within_s: float) -> SimpleQueue[None] | Callable[[], object] | str | None:
        """What is asked for next; None where it is only to write, or that time is over."""
        try:
            return self._requests.get(timeout=within_s)
        except Empty:
            return None

    def _work(self) -> None:
        beat = now()
        while True:
            if isinstance(request := self._next(_DRAIN_EVERY_S), str):
                say(request)
                continue
            is_last = request is not None and request is self._last
            self._write(patient=is_last or isinstance(request, SimpleQueue))
            if now() - beat >= _DRAIN_EVERY_S * 1e9 and self._busy() and self.error is None:
                beat = now()
                self.recorder.heartbeat(beat)
                self._flush()
            self._look()
            self._at_last = is_last
            if callable(request):
                with contained():
                    request()
            elif request is not None:
                request.put(None)
            if is_last:
                return

    def _write(self, patient: bool) -> None:
        """Write all that is buffered. Somebody waits for it (`patient`), or else the training must not notice."""
        until = now() + _BURST_NS
        taken, at = self.buffers.take(), 0
        while at < len(taken):
            if self.error is not None:
                self.lost += len(taken) - at
                break
            _, event, thread = taken[at]
            written = 0
            try:
                if not (written := self.recorder.plain_step(taken, at)):
                    self.recorder.handle(event, thread)
            except Exception as error:
                self.lost += 1
                if self.lost == 1:
                    say(f"an event could not be recorded: {first_line(error)}")
            at += written or 1
            if not patient and now() > until:
                time.sleep(0.001)
                until = now() + _BURST_NS
        self._flush()

    def _flush(self) -> None:
        """Write to the file; the first error ends the recording, is told once, and never reaches the program."""
        if self.error is None:
            try:
                self.recorder.flush()
            except MemoryError:
                pass  # what is to be written is kept for the next time, when there may be room to compress it
            except OSError as error:
                self.error = f"{type(error).__name__}: {error.strerror or error}"
                self._fails(self.error)
