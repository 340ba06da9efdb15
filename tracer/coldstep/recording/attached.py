"""The collectors of a trace: which attach, when and how far, whose hooks still run, and how each is taken off again.

Nothing attaches once the trace ends: what comes too late would stay in the process for ever.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, cast

from coldstep._util.importhook import ImportHook
from coldstep.blind_spots import left_open
from coldstep.clock import now
from coldstep.collector import Collector, Hook, SessionSink, own_time
from coldstep.errors import contained, first_line, our_errors
from coldstep.events import CollectorState
from coldstep.recording.buffer import Drain
from coldstep.recording.garbage import none_collected
from coldstep.vocabulary import Vocabulary

_PATIENCE_S = 10.0
_LOOK_EVERY_S = 0.001


_STILL_ATTACHING = "A collector still attached on another thread as the trace ended: hooks of it may stay, inert."


class Attaching:
    """What attaches on whatever thread, while the trace may end on another. No lock: a fork could copy one held."""

    def __init__(self) -> None:
        self._under_way: list[int] = []
        self._over = False

    def run(self, attach: Callable[[], object]) -> None:
        """Call `attach()`, unless the trace is ending."""
        thread = threading.get_ident()
        self._under_way.append(thread)  # before the look at `_over`: so one of the two threads sees the other
        try:
            if not self._over:
                with none_collected():
                    attach()
        finally:
            self._under_way.remove(thread)

    def end(self) -> bool:
        """Have nothing attach from now on, and wait for those attaching on other threads; whether that has ended."""
        self._over = True
        own, deadline = threading.get_ident(), time.monotonic() + _PATIENCE_S
        while any(thread != own for thread in list(self._under_way)):
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_EVERY_S)
        return True


class Attached:
    """The collectors of one trace."""

    def __init__(self, drain: Drain) -> None:
        self._drain = drain
        self._buffers = drain.buffers
        self.collectors: list[Collector] = []
        """Those that have begun."""
        self.partial: list[str] = []
        """The collectors that could not be attached wholly."""
        self.failed: dict[str, str] = {}
        """What made a collector detach itself, in one sentence each."""
        self.import_hook = ImportHook()
        """See `coldstep.collector.Sink`."""
        self.attaching = Attaching()
        """What attaches now."""
        self._states: dict[str, CollectorState] = {}  # how each stands
        self._inert: set[str] = set()  # whose hooks run no more
        self._stopped: set[str] = set()

    def start(self, collector: Collector, sink: SessionSink) -> None:
        """Have it attach to the process."""
        self.collectors.append(collector)
        with contained(partial(self.fail, collector.name)):
            collector.start(sink)

    def forked(self) -> None:
        """In a fork's child that is of the job: have them forget their parent's."""
        for collector in self.collectors:
            if (forked := getattr(collector, "forked", None)) is not None:
                with contained():
                    forked()

    def keep(self, wanted: Callable[[Collector], bool], ns: int) -> None:
        """In a fork's child that began at `ns`, and has something to record: only these go on, each as it stood."""
        self.collectors = [*filter(wanted, self.collectors)]
        names = {each.name for each in self.collectors}
        for state in self._states.values():
            if state.name in names:
                again = CollectorState(ns, state.name, state.state, state.version, state.missing, state.blind)
                self._buffers.append(again)

    def begin_in_fork(self) -> None:
        """There, once it is written: begin what of the collectors no fork copies."""
        self.attaching = Attaching()  # no thread of the parent's attaches here
        self._stopped = {each.name for each in self.collectors}
        for collector in self.collectors:
            if (begin := getattr(collector, "begin_in_fork", None)) is not None and collector.name not in self._inert:
                self._stopped.remove(collector.name)
                self.guarded(collector.name, begin)()

    def stop(self, since: int, *, abandoned: bool) -> None:
        """Have each restore the process, since when it ended; they do nothing any more. May be called again."""
        with own_time(self._buffers.emit, "stop", since):
            if not self.attaching.end():
                self._buffers.note(_STILL_ATTACHING)
            for collector in self.collectors:
                if collector.name not in self._stopped:
                    self._stop(collector, abandoned=abandoned)
                    self._stopped.add(collector.name)
            for name in (each.name for each in self.collectors if each.name not in self._states):
                self._buffers.emit(CollectorState(now(), name, "absent", None, []))
        self._buffers.is_on = False

    def _stop(self, collector: Collector, *, abandoned: bool) -> None:
        fail = partial(self.fail, collector.name) if not abandoned else None  # it may not have begun
        with contained(fail):
            for left in collector.stop():
                self._buffers.note(f"{collector.name} leaves in the process, inert: {left}")
        self._inert.add(collector.name)

    def misses(self, vocabulary: Vocabulary) -> bool:
        """Whether a framework is there whose compiles nobody watched."""
        there = (stack for stack in vocabulary.stacks.values() if stack.packages[0] in sys.modules)
        return any(stack.collector not in self._states for stack in there)

    # --- for the sink: see `coldstep.collector.Sink` ------------------------------------------------------------

    def state(self, collector: str, state: str, version: str | None, missing: list[str]) -> None:
        if state == "partial" and collector not in self.partial:
            self.partial.append(collector)
        if collector not in self.failed:
            self._set(collector, state, version, missing)

    def _set(self, collector: str, state: str, version: str | None, missing: list[str]) -> None:
        blind = left_open(collector, state, missing)
        self._states[collector] = CollectorState(now(), collector, state, version, missing, blind)
        self._buffers.emit(self._states[collector])

    def unseen(self, claim: str) -> list[str]:
        """The collectors by whose silence nothing of `claim`, of `blind_spots.CLAIMS`, may be concluded."""
        return [collector for collector, state in self._states.items() if claim in state.blind]

    def fail(self, collector: str, error: Exception) -> None:
        """A hook of `collector` raised: it is done for this trace, reported once in the trace and on stderr."""
        if collector not in self.failed:
            text = self.failed[collector] = f"collector {collector} failed and was detached: {first_line(error)}"
            self._inert.add(collector)
            self._set(collector, "failed", None, [text])
            self._report(text)

    def _report(self, text: str) -> None:
        self._buffers.note(text)
        self._drain.say(text)

    def when_imported(self, module: str, callback: Callable[[Any], None]) -> None:
        def attach(module_: Any) -> None:
            with contained(lambda error: self._report(f"attaching to {module} failed: {first_line(error)}")):
                self.attaching.run(lambda: callback(module_))

        self.import_hook.when_imported(module, attach)

    def guarded(self, collector: str, hook: Hook) -> Hook:
        buffers, inert = self._buffers, self._inert

        @wraps(hook)
        def guard(*args: Any, **kwargs: Any) -> Any:
            if not (buffers.is_on or buffers.awake()) or collector in inert:
                return None
            try:
                return hook(*args, **kwargs)
            except our_errors() as error:
                self.fail(collector, error)
                return None

        return cast(Hook, guard)
