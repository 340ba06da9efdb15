"""What looking at waits costs: the thread that works, and coldstep's own threads beside one that waits.

`make bench`. Counted: processor time of the home thread in a piece of Python of its own, and of the whole process
while it sleeps in the kernel; with looks, and twice without (the null).
"""

from __future__ import annotations

import argparse
import os
import select
import statistics
import time
from collections.abc import Callable
from unittest.mock import patch

import pages
from overhead import interleaved, tracing

WAITED_S = 5
TURNS = 4_000_000  # of the loop: about 0.3 s
PIECES = 6  # one after the other, so that there are looks: they begin where a thread has had no phase for 250 ms


def works(looks: str) -> float:
    """Nanoseconds of the home thread for a second or two of Python without a phase."""
    with patch.dict(os.environ, {"COLDSTEP_WAITS": looks}), tracing(collectors="process"):
        before = time.thread_time_ns()
        for _ in range(PIECES):
            total = 0
            for turn in range(TURNS):
                total += turn
        return float(time.thread_time_ns() - before)


def sleeps(looks: str) -> float:
    """Nanoseconds of the process for each second that its home thread waits."""
    with patch.dict(os.environ, {"COLDSTEP_WAITS": looks}), tracing(collectors="process"):
        before = time.process_time_ns()
        select.select([], [], [], WAITED_S)
        return (time.process_time_ns() - before) / WAITED_S


def row(title: str, measure: Callable[[str], float], rounds: int) -> str:
    """The medians of what it takes without looks, of the difference with them, and of that of none with none."""
    off, on, again = interleaved(rounds, lambda: measure("0"), lambda: measure("1"), lambda: measure("0"))
    costs, null = (statistics.median(b - a for a, b in zip(off, other, strict=True)) for other in (on, again))
    without = statistics.median(off)
    return f"  {title:46}{without / 1e6:9.2f} ms {costs / 1e6:+8.2f} ms {null / 1e6:+8.2f} ms {costs / without:+8.1%}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", action="store_true", help="put it into docs/costs.md")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    lines = [
        "processor time                                      without looks       with     the null    share",
        row("the home thread, in Python of its own", works, options.rounds),
        row("all threads, for a second that it waits", sleeps, options.rounds),
    ]
    pages.show(lines, "Of looks at what the program waits for" if options.keep else None)


if __name__ == "__main__":
    main()
