"""One clock: monotonic nanoseconds, and where that clock stood against the others."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from coldstep._util.slotted import slotted

_DEAD = (b"Z", b"X", b"x")  # a process that has ended, and is still in the table
now = time.monotonic_ns
"""CLOCK_MONOTONIC in nanoseconds: the only stamp that events carry."""


@slotted
class Snapshot:
    """The three clocks read as one, in nanoseconds; `uncertainty_ns` bounds how far apart the readings were."""

    monotonic_ns: int
    """The clock of all stamps."""
    boottime_ns: int
    """The time since the machine started."""
    realtime_ns: int
    """The time of day."""
    uncertainty_ns: int


def snapshot() -> Snapshot:
    """Read all three clocks, keeping the tightest of five tries."""
    best: Snapshot | None = None
    for _ in range(5):
        before = now()
        boottime, realtime = time.clock_gettime_ns(time.CLOCK_BOOTTIME), time.time_ns()
        after = now()
        if best is None or after - before < best.uncertainty_ns:
            best = Snapshot((before + after) // 2, boottime, realtime, after - before)
    assert best is not None
    return best


def snapshot_of(ns: int) -> Snapshot:
    """As it would have been at `ns`, a while ago."""
    read = snapshot()
    ago = read.monotonic_ns - ns
    return Snapshot(ns, read.boottime_ns - ago, read.realtime_ns - ago, read.uncertainty_ns)


def time_of_day(realtime_ns: int) -> str:
    """A time as ISO 8601 in UTC, to the millisecond; `datetime` would be an import for this alone."""
    seconds, ns = divmod(realtime_ns, 1_000_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{ns // 1_000_000:03}+00:00"


def boot_id() -> str | None:
    """A text that is equal exactly for processes that share this monotonic clock: one kernel, one boot."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return None


def born(pid: int | str = "self") -> int | None:
    """When a process that runs was started, in ticks since the machine was; None where that is not known."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # the command name, in parentheses, may itself hold spaces and parentheses; field 22 counts from 1
            state, *fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return int(fields[18]) if state not in _DEAD else None


def process_age_ns() -> int:
    """Nanoseconds since this process started, known to one tick (10 ms) from /proc; 0 where there is no /proc."""
    if (started_ticks := born()) is None:
        return 0
    started_ns = started_ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    return max(0, time.clock_gettime_ns(time.CLOCK_BOOTTIME) - started_ns)


@slotted
class Mark:
    """One event that two clocks saw: the foreign clock has when it began and ended, ours what enclosed it."""

    before_ns: int
    """Our clock, before."""
    after_ns: int
    """Our clock, after."""
    foreign_start_ns: int
    """Theirs, as the event began."""
    foreign_end_ns: int
    """Theirs, as it ended."""

    @property
    def least(self) -> int:
        """The event began no earlier than `before_ns`, so the clocks differ by at least this."""
        return self.before_ns - self.foreign_start_ns

    @property
    def most(self) -> int:
        """It ended no later than `after_ns`, so they differ by at most this."""
        return self.after_ns - self.foreign_end_ns


class Mapping:
    """A foreign clock's time in ours, from marks at the start and at the end of what that clock has stamped.

    `bound_ns` is how far a mapped time can be off: half the play that the marks leave, and whatever the foreign
    clock moved against ours in between. Raises ValueError without marks.
    """

    def __init__(self, start: Sequence[Mark], end: Sequence[Mark]) -> None:
        if not (start or end):
            raise ValueError("no event was seen by both clocks")
        self._offset, first_play, self._from = _offset(start or end)
        last, last_play, until = _offset(end or start)
        moved = last - self._offset
        self._rate = moved / (until - self._from) if until > self._from else 0.0
        self.bound_ns = max(first_play, last_play) + abs(moved)
        """How far a mapped time can be off."""

    def __call__(self, foreign_ns: int) -> int:
        return foreign_ns + self._offset + round((foreign_ns - self._from) * self._rate)


def _offset(marks: Sequence[Mark]) -> tuple[int, int, int]:
    """How far our clock is ahead of the foreign one, half the play of that, and when (on the foreign clock)."""
    least, most = max(mark.least for mark in marks), min(mark.most for mark in marks)
    # where no single difference fits all marks, the two bounds have changed places, and lie as far apart as it errs
    return (least + most) // 2, (abs(most - least) + 1) // 2, marks[0].foreign_start_ns
