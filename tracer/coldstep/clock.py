"""One clock: monotonic nanoseconds, and where that clock stood against the others."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

now = time.monotonic_ns
"""CLOCK_MONOTONIC in nanoseconds: the only stamp that events carry."""


@dataclass(slots=True)
class Snapshot:
    """The three clocks read as one, in nanoseconds; `uncertainty_ns` bounds how far apart the readings were."""

    monotonic_ns: int
    boottime_ns: int
    realtime_ns: int
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


def process_age_ns() -> int:
    """Nanoseconds since this process started, known to one tick (10 ms) from /proc; 0 where there is no /proc."""
    try:
        with open("/proc/self/stat", "rb") as file:
            # the command name, in parentheses, may itself hold spaces and parentheses; field 22 counts from 1
            started_ticks = int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0
    started_ns = started_ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    return max(0, time.clock_gettime_ns(time.CLOCK_BOOTTIME) - started_ns)
