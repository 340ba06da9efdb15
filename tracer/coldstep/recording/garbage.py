"""Python's garbage collections: those of 1 ms and more are watched while a compile is open, and none is for us."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from coldstep.clock import now
from coldstep.events import Begin, Event, emit_whole

_MIN_PAUSE_NS = 1_000_000


class GarbageWatch:
    """A `gc.callbacks` entry that comes with the first open compile and goes with the last."""

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self._started = 0

    def install(self) -> None:
        """Watch from now on."""
        if self._callback not in gc.callbacks:
            gc.callbacks.append(self._callback)

    def remove(self) -> None:
        """Leave no trace in `gc.callbacks`."""
        if self._callback in gc.callbacks:
            gc.callbacks.remove(self._callback)

    def _callback(self, phase: str, info: dict[str, Any]) -> None:
        # one collection runs at a time, and it holds the GIL from start to stop
        if phase == "start":
            self._started = now()
        elif self._started and (ended := now()) - self._started >= _MIN_PAUSE_NS:
            args = {"generation": info.get("generation"), "collected": info.get("collected")}
            emit_whole(self._emit, Begin(self._started, "gc", "gc", "gc", None, args), ended)


@contextmanager
def none_collected() -> Iterator[None]:
    """Around work of ours in which the program does nothing: what we make must not have Python look through the
    program's heap, which may take longer than the work. Of a trace's millions of objects none is garbage, and to look
    for some takes a fourth of the time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
