"""Puts a phase around the calls of a library's function: one hook each, and nothing that a step would pay."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from functools import reduce, wraps
from types import FrameType
from typing import Any

from coldstep.clock import now
from coldstep.collector import Sink
from coldstep.events import Args, Begin, End
from coldstep.named_tuple import NamedTuple
from coldstep.places import Places
from coldstep.vocabulary import OURS
from coldstep_collectors.patch import Patch, undo_all

TRACK = "outside"


class Call(NamedTuple):
    """A call that goes on: what it was given, and from where."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    frame: FrameType

    def given(self, position: int, *names: str) -> Any:
        """An argument by its place or one of its names; None where it was not given."""
        if len(self.args) > position:
            return self.args[position]
        return next((self.kwargs[name] for name in names if name in self.kwargs), None)


Facts = Callable[[Call], Args]
"""The facts of a call that begins."""
Result = Callable[[Call, Begin, Any], Args]
"""The facts that the result of a call adds."""


def nothing(_: Call) -> Args:
    """No facts."""
    return {}


class Watch(NamedTuple):
    """A function whose time is a phase's, once its module has been imported."""

    module: str
    """Where it is defined, or what offers it to everybody."""
    name: str
    """Its name there, as "load" or "Checkpointer.restore"."""
    phase: str
    """What its time goes to."""
    facts: Facts = nothing
    """The facts of a call that begins."""
    result: Result | None = None
    """The facts that its result adds."""
    beside: tuple[str, ...] = ()
    """Further modules that offer the same function by the same name."""


class Around:
    """The hooks of one collector."""

    def __init__(self, sink: Sink, collector: str) -> None:
        self.sink = sink
        self._patches: list[Patch] = []
        self._forget: list[Callable[[], None]] = []
        self._places = Places()
        self._facts, self._result = sink.guarded(collector, _facts), sink.guarded(collector, _result)
        self._begins, self._ends = sink.guarded(collector, self._begin), sink.guarded(collector, self._end)

    def watch(self, row: Watch, module: Any) -> None:
        """Hook a function in its module, if it is there."""
        *classes, name = row.name.split(".")
        owner = reduce(lambda place, each: getattr(place, each, None), classes, module)
        real = vars(owner).get(name) if classes and owner is not None else getattr(owner, name, None)
        if isinstance(real, classmethod):
            self.put(owner, name, classmethod(self._timed(real.__func__, row)))
            return
        if not callable(real):
            return
        timed = self._timed(real, row)
        self.put(owner, name, timed)
        for each in row.beside:
            if (other := sys.modules.get(each)) is not None and getattr(other, name, None) is real:
                self.put(other, name, timed)

    def put(self, owner: Any, name: str, ours: Any) -> None:
        """Put a hook in the place of an attribute, until the trace ends."""
        self._patches.append(Patch(owner, name, ours))

    @contextlib.contextmanager
    def within(self, phase: str, frame: FrameType, facts: Args | None = None) -> Iterator[Args | None]:
        """Have the time of a block count for a phase. It yields where to put the facts that its end adds; None where
        the trace has ended."""
        begin = self._begins(phase, frame, facts)
        more: Args = {}
        try:
            yield more if begin is not None else None
        finally:
            # what raises ends its phase, too
            if begin is not None:
                self._ends(begin, more)

    def when_done(self, forget: Callable[[], None]) -> None:
        """Have `forget()` called as the hooks are taken away."""
        self._forget.append(forget)

    def undo(self) -> list[str]:
        """Take all hooks away; what stays, in words."""
        for forget in self._forget:
            forget()
        return undo_all(self._patches)

    def _timed(self, real: Callable[..., Any], row: Watch) -> Callable[..., Any]:
        begins, ends, facts, result = self._begins, self._ends, self._facts, self._result

        @wraps(real)
        def timed(*args: Any, **kwargs: Any) -> Any:
            call = Call(args, kwargs, sys._getframe(1))
            begin, more = begins(row.phase, call.frame, facts(row, call)), None
            try:
                value = real(*args, **kwargs)
                more = result(row, call, begin, value)
                return value
            finally:
                if begin is not None:
                    ends(begin, more)

        return timed

    def _begin(self, phase: str, frame: FrameType, args: Args | None) -> Begin:
        ns, line = now(), self._places.users_line(frame)
        caller = {"caller": line} if line is not None else {}
        begin = Begin(ns, OURS.phase(phase), TRACK, phase, None, {**(args or {}), **caller})
        self.sink.emit(begin)
        return begin

    def _end(self, begin: Begin, args: Args | None) -> None:
        self.sink.emit(End(now(), begin, args))


def _facts(row: Watch, call: Call) -> Args:
    return row.facts(call)


def _result(row: Watch, call: Call, begin: Begin | None, value: Any) -> Args | None:
    return row.result(call, begin, value) if row.result is not None and begin is not None else None


def of_file(file: Any) -> Args:
    """The name of a file or folder, and a file's size in bytes, where it is given by its path. To add up what a folder
    holds could take as long as to read it."""
    try:
        path = os.fsdecode(os.fspath(file))
    except TypeError:
        return {}
    what = {"what": os.path.basename(path.rstrip("/"))}
    try:
        return what | ({"bytes": os.stat(path).st_size} if not os.path.isdir(path) else {})
    except OSError:
        return what


def of_model(given: Any) -> Args:
    """The name of a model: in a folder, or of a repository that has been fetched."""
    return {"what": given} if isinstance(given, str) and not os.path.exists(given) else of_file(given)
