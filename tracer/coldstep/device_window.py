"""Says when the profilers behind device traces run: from step 0 until it has settled, all the time, or never."""

from __future__ import annotations

from collections.abc import Callable

from coldstep.clock import now
from coldstep.events import DeviceWindow, Event

OFF, UNTIL_SETTLED, ALL = "off", "until-settled+2", "all"
CHOICES = (UNTIL_SETTLED, ALL, OFF)
_SETTLED = 2  # steps in a row that compiled nothing and recorded no CUDA graph


class Window:
    """Open while device traces are wanted; each recording is asked before every step of that time, and at its end.

    With `until-settled+2` that is from the first step of each name until two in a row of that name were clean: compiled
    nothing and recorded no CUDA graph.
    """

    def __init__(self, when: str, emit: Callable[[Event], None]) -> None:
        self._always = when == ALL
        self._emit = emit
        self._recordings: list[tuple[Callable[[], None], Callable[[], None]]] = []
        self._clean: dict[str, int] = {}  # per name of step: how many in a row were clean
        self._open = False

    def add(self, run: Callable[[], None], rest: Callable[[], None]) -> None:
        """Have `run()` called to begin or go on recording, between two steps, and `rest()` to pause."""
        self._recordings.append((run, rest))
        if self._always or self._open:
            self._begin()

    def step_begins(self, name: str) -> bool:
        """A step called `name` is about to begin on this thread; whether a recording was asked, which takes time."""
        if self._always or self._clean.get(name, 0) < _SETTLED:
            self._begin()
        elif self._open:
            self._end()
        else:
            return False
        return True

    def step_ended(self, name: str, busy: bool) -> None:
        """A step called `name` has ended on this thread; `busy` where it was not clean."""
        clean = self._clean.get(name, 0)
        if clean < _SETTLED:
            self._clean[name] = clean = 0 if busy else clean + 1
            if clean == _SETTLED and not self._always:
                self._end()

    def pause(self) -> None:
        """Have nothing recorded until the next step, on whatever thread."""
        for _, rest in self._recordings:
            rest()

    def _begin(self) -> None:
        if not self._open:
            self._open = True
            self._emit(DeviceWindow(now(), True))
        for run, _ in self._recordings:
            run()

    def _end(self) -> None:
        self.pause()
        self._open = False
        self._emit(DeviceWindow(now(), False))
