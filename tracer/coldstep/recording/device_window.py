"""Says when the profilers behind device traces run: from step 0 until it has settled, all the time, or never."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from coldstep._util.slotted import slotted_object
from coldstep.clock import now
from coldstep.events import DeviceWindow, Event

if TYPE_CHECKING:
    from coldstep.candidates import Candidate

OFF, UNTIL_SETTLED, ALL = "off", "until-settled+2", "all"
CHOICES = (UNTIL_SETTLED, ALL, OFF)
_SETTLED = 2  # steps in a row that compiled nothing and recorded no CUDA graph
_ASKED_NS = 1_000_000_000  # how often recordings are asked where no step is told: in a step, a session cuts what runs
_PATIENCE_NS = 5_000_000_000  # for which a recording, which holds all that it sees, waits for the program


@slotted_object
class _Recording:
    """What records: asked between two steps, or at `any_time`."""

    run: Callable[[str | None], None]
    rest: Callable[[], None]
    any_time: bool


class Window:
    """Open while device traces are wanted; each recording is asked before every step of that time, and at its end.

    With `until-settled+2` that is from the first step of each name until two in a row of that name were clean: compiled
    nothing and recorded no CUDA graph. Where it `follows` a program that may mark none, and until it marks one:
    from the start until `look` finds that the program seems to have settled. A recording that may not be asked at any
    time is then asked by `between_calls`.
    """

    def __init__(self, when: str, emit: Callable[[Event], None], *, follows: bool = False) -> None:
        self.due_ns = 0
        """Since when a recording waits for `between_calls`; 0 where none does."""
        self._always = when == ALL
        self._emit = emit
        self._recordings: list[_Recording] = []
        self._clean: dict[str, int] = {}  # per name of step: how many in a row were clean
        self.rested: set[str] = set()
        """The names of steps at whose begin and end there is nothing to do."""
        self._open = False
        self._following = Following() if follows and not self._always else None
        self._asked = 0
        self._rests = True  # none records that is asked by `between_calls`

    def add(self, run: Callable[[str | None], None], rest: Callable[[], None], *, any_time: bool) -> None:
        """Have `run("")` called to begin or go on recording, between two steps, and `rest()` to pause; without marked
        steps on whatever thread, if that may be at `any_time`, else between two calls of the program's."""
        self._recordings.append(_Recording(run, rest, any_time))
        if self._always or self._open or (self._following is not None and any_time):
            self._begin()
        elif self._following is not None:
            self.due_ns = now()

    def look(self, candidates: Iterable[Candidate], unsettled: int, *, compiles: bool) -> None:
        """Without marked steps: go on recording, or end it. For the drain thread, every now and then."""
        if compiles:
            self.due_ns = self.due_ns and now()  # while it lasts the program comes to no such point
            return
        if not self._open:
            return
        if self.due_ns and now() - self.due_ns > _PATIENCE_NS:
            self._rest(any_time=False)
            if self._following is None:
                self._close()
        if (following := self._following) is None:
            return
        if following.is_over(candidates, unsettled):
            self._following = None
            self._rest(any_time=True)
            if all(recording.any_time for recording in self._recordings):
                self._close()
            else:
                self.due_ns = now()
        elif now() - self._asked >= _ASKED_NS:
            self._begin()

    def between_calls(self, within: str | None = "") -> None:
        """Without marked steps: this thread is the program's, and between two calls that may be steps; nothing
        compiles. See `Sink.between_calls`."""
        if within is None and not self._rests:
            return
        self.due_ns = 0
        if self._following is None:
            if within and not self._rests:
                self._run(within)  # which ends it as what it is within is about to end
            self._rest(any_time=False)
            self._close()
            return
        self._opens()
        self._asked = now()
        self._run(within)
        self._rests = bool(within) and not self._rests
        if self._rests:
            self.due_ns = self._asked

    def step_begins(self, name: str) -> bool:
        """A step called `name` is about to begin on this thread; whether a recording was asked, which takes time."""
        self._following, self.due_ns = None, 0
        if self._always or self._clean.get(name, 0) < _SETTLED:
            self._begin()
        elif self._open:
            self._end()
        else:
            self.rested.add(name)
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
        self._asked = now()
        for recording in self._recordings:
            recording.rest()

    def _begin(self) -> None:
        self._opens()
        self._asked = now()
        for recording in self._recordings:
            if self._following is None or recording.any_time:
                recording.run("")
            else:
                self.due_ns = self.due_ns or self._asked

    def _end(self) -> None:
        self.pause()
        self._close()

    def _run(self, within: str | None) -> None:
        for recording in self._recordings:
            if not recording.any_time:
                recording.run(within)

    def _rest(self, *, any_time: bool) -> None:
        for recording in self._recordings:
            if recording.any_time == any_time:
                recording.rest()

    def _opens(self) -> None:
        if not self._open:
            self._open = True
            self.rested.clear()
            self._emit(DeviceWindow(now(), True))

    def _close(self) -> None:
        self._open, self.due_ns = False, 0
        self._emit(DeviceWindow(now(), False))


# --- tells, while a program runs that marks no steps, whether it seems to have settle --------------------------------


_TRUST = {"optimizer": 2, "trainer": 3, "other_tool": 4}
_LEARNS = 1  # a compiled function that computes gradients, or is given its own results
_CLEAN = 3  # calls, one after the other, in whose time nothing was compiled
_QUIET_NS = 30_000_000_000  # without a compile: what repeats nothing that is trusted is not followed for ever


class Following:
    """A program's candidates for steps, looked at on one thread."""

    def __init__(self) -> None:
        self._unsettled = 0
        self._since = now()
        self._called: dict[str, int] = {}

    def is_over(self, candidates: Iterable[Candidate], unsettled: int) -> bool:
        """Whether the commonest of those that are trusted most was called often enough since the last look that found
        `unsettled` gone up, which it does with every compile; or nothing has compiled for so long."""
        candidates = list(candidates)
        # layers of one step may be compiled each by itself: where an optimizer was made, its steps end the program's
        steps_optimizer = any(row.kind == "setup" for row in candidates)
        counts = [(row, row.written + len(row.calls)) for row in candidates]
        if unsettled != self._unsettled:
            self._unsettled, self._since = unsettled, now()
            self._called = {row.id: calls for row, calls in counts}
        if now() - self._since > _QUIET_NS:
            return True
        least = _TRUST["optimizer"] if steps_optimizer else _LEARNS
        trusted = [(_trust(row), calls, row.id) for row, calls in counts if _trust(row) >= least]
        if not trusted:
            return False
        _, calls, id_ = max(trusted)
        return calls - self._called.get(id_, 0) >= _CLEAN


def _trust(candidate: Candidate) -> int:
    learns = candidate.gradients or candidate.fed.get(candidate.id, 0) > 1
    return _TRUST.get(candidate.kind, _LEARNS if candidate.kind == "call" and learns else 0)
