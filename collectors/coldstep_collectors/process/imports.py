"""Shows what importing heavy packages costs: one phase per package, its slow submodules drawn inside it."""

from __future__ import annotations

import sys
import threading

from coldstep._util.importhook import ImportHook
from coldstep.clock import now
from coldstep.collector import ProcessSink
from coldstep.events import Args, Begin, End, Slice

DRAWN_NS = 5_000_000
"""An import that is not a phase of its own is drawn from this length on."""

NO_PACKAGE = sys.stdlib_module_names | {"coldstep", "coldstep_collectors", "coldstep_viewers"}

Loading = tuple[int, str, Begin | None, str | None]
"""A module being loaded: since when, its name, the phase it opened, and the package whose import it is part of."""


class _Thread(threading.local):
    package: str | None = None  # the innermost package being imported on this thread


class Imports:
    """The collector `imports`; also what the import hook calls, twice for each of a framework's thousands of modules.

    Only a change of package is a phase. The standard library, and coldstep, belong to the package that imports them.
    """

    name = "imports"

    def __init__(self) -> None:
        self._thread = _Thread()
        self._hook: ImportHook | None = None

    def start(self, sink: ProcessSink) -> None:
        """Listen to the session's import hook."""
        self._sink = sink
        # the circuit breaker is around what few modules need: the hook itself calls plain functions
        self._open = sink.guarded(self.name, self._opens)
        self._emit = sink.guarded(self.name, sink.emit)
        self._hook = sink.import_hook
        self._hook.listener = self
        sink.state(self.name, "attached", None, [])

    def stop(self) -> list[str]:
        """Stop listening."""
        if self._hook is not None and self._hook.listener is self:
            self._hook.listener = None
        return []

    def begin(self, name: str) -> Loading:
        """See `coldstep._util.importhook.Listener`."""
        start = now()
        outer = self._thread.package
        package = name.partition(".")[0]
        if package == outer or package in NO_PACKAGE:
            return start, name, None, outer
        return start, name, self._open(start, name, package, outer), outer

    def end(self, loading: Loading) -> None:
        """See `coldstep._util.importhook.Listener`."""
        start, name, opened, outer = loading
        end = now()
        if opened is not None:
            self._thread.package = outer
            self._emit(End(end, opened))
        elif end - start >= DRAWN_NS:
            self._emit(Slice(start, end, name, "imports"))

    def _opens(self, start: int, name: str, package: str, outer: str | None) -> Begin:
        args: Args = {"module": name}
        if outer is not None:
            args["under"] = outer
        opened = Begin(start, package, "imports", f"import.{package}", None, args)
        self._sink.emit(opened)
        self._thread.package = package
        return opened
