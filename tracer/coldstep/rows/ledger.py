"""The ledger of time: gives every nanosecond to one phase.

It belongs to the innermost phase open on the owner thread; where none is open, to the most recently begun
compile phase on another thread; else to nobody. Inside autotuning no other phase of that thread counts. The owner is
the thread that entered the open step, and outside steps the thread that entered the trace.
"""

from __future__ import annotations

from collections.abc import Callable

from coldstep._util.slotted import slotted_object
from coldstep.vocabulary import AUTOTUNE, OURS, UNATTRIBUTED, Vocabulary


@slotted_object
class Open:
    """A phase that is open on some thread; the object itself is its identity."""

    phase: str
    """Its name."""
    ns: int
    """Since when."""


def within(enclosing: str | None, phase: str) -> str:
    """The phase that time in `phase` goes to, where `enclosing` is open around it."""
    return AUTOTUNE if enclosing == AUTOTUNE else phase


class Partition:
    """Takes the phases of all threads in the order of time, and calls `write(ns, phase)` where each stretch begins.

    A late one (from another thread's buffer) counts from the time already written: no nanosecond is written
    twice. Every method returns the time it took effect.
    """

    def __init__(self, ns: int, home: int, write: Callable[[int, str], None], vocabulary: Vocabulary = OURS) -> None:
        self._now = self._since = ns
        self._home = self._owner = home
        self._write = write
        self._compiles = vocabulary.is_compiling
        self._open: dict[int, list[Open]] = {}
        self._current = UNATTRIBUTED
        write(ns, UNATTRIBUTED)

    def begin(self, ns: int, thread: int, phase: str) -> Open:
        """`phase` began on `thread`; the result is what `end` takes."""
        self._now = ns = max(ns, self._now)
        phases = self._open.setdefault(thread, [])
        opened = Open(within(phases[-1].phase if phases else None, phase), ns)
        phases.append(opened)
        self._update(ns)
        return opened

    def end(self, ns: int, thread: int, opened: Open) -> int:
        """`opened` ended on `thread`, and all that began inside it."""
        self._now = ns = max(ns, self._now)
        phases = self._open.get(thread, [])
        for depth, entry in enumerate(phases):
            if entry is opened:
                del phases[depth:]
                break
        if not phases:
            self._open.pop(thread, None)
        self._update(ns)
        return ns

    def cut(self, ns: int, owner: int | None = None) -> int:
        """An interval ends here and the next begins, owned by `owner` or, by default, the trace's own thread."""
        self._now = self._since = ns = max(ns, self._now)
        self._owner = self._home if owner is None else owner
        self._current = self._innermost()
        self._write(ns, self._current)
        return ns

    @property
    def is_calm(self) -> bool:
        """Whether no phase is open anywhere."""
        return not self._open and self._current == UNATTRIBUTED

    @property
    def now(self) -> int:
        """The time up to which the ledger is written."""
        return self._now

    @property
    def idle_since(self) -> int | None:
        """Since when the trace's own thread has no phase, nor begun or ended a step; None where it has one, and where
        the time is another thread's. May be asked from any thread."""
        return self._since if self._current == UNATTRIBUTED and self._owner == self._home else None

    def went_on(self, ns: int) -> None:
        """Somebody else wrote all up to there, and no phase is open again."""
        self._now = self._since = ns

    def finish(self, ns: int) -> int:
        """The end of the ledger; no earlier than anything written."""
        self._now = max(ns, self._now)
        return self._now

    def _update(self, ns: int) -> None:
        phase = self._innermost()
        if phase != self._current:
            self._current, self._since = phase, ns
            self._write(ns, phase)

    def _innermost(self) -> str:
        if phases := self._open.get(self._owner):
            return phases[-1].phase
        latest: Open | None = None
        for phases in self._open.values():
            entry = phases[-1]
            if self._compiles(entry.phase) and (latest is None or entry.ns >= latest.ns):
                latest = entry
        return latest.phase if latest else UNATTRIBUTED
