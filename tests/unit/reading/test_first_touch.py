"""Which line first touched mapped weights, by looks at the program and at what it had read from disk."""

from __future__ import annotations

from itertools import pairwise

import pytest

from coldstep.loading.lines import name_by_lines
from coldstep.loading.row_types import Slice
from coldstep.loading.slices import Locations, Rows
from coldstep.model import Interval
from coldstep.pftrace.layout import READ, Track

MS, MIB = 1_000_000, 1 << 20
LOAD, TOUCH, SLEEP = 10, 20, 30
LOADED = 70 * MS


def read_by(*looks: tuple[int, int, int]) -> dict[str, int]:
    """Of looks (milliseconds, line, MiB read so far), where weights were mapped at 70 ms: MiB by line."""
    rows = Rows(0)
    rows.slices = [Slice(Track("phases", 1, "main"), "load.weights", "load.weights", 0, LOADED, {"mapped": True})]
    rows.counters[READ] = [(0, 0.0), *((ms * MS, float(size * MIB)) for ms, _, size in looks)]
    times = [0, *(ms for ms, _, _ in looks)]
    took = {after: (after - before) * MS for before, after in pairwise(times)}
    rows.lines = [
        {
            "sampled": [
                {"stack": [{"file": "train.py", "line": line, "function": ""}], "at": [ms * MS], "for_ns": [took[ms]]}
                for ms, line, _ in looks
            ]
        }
    ]
    end = times[-1] * MS
    interval = Interval(
        0, 0, "before_first_step", None, None, "marked", label=None, measures=None, start_ns=0, wall_ns=end
    )
    interval.unattributed_ns = end
    name_by_lines(rows, Locations("", {}), [(interval, 0, end + 1)])
    return {line.partition(":")[2]: size // MIB for line, size in interval.read_bytes.items()}


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        ([(50, LOAD, 9), (100, TOUCH, 40), (150, TOUCH, 90), (200, SLEEP, 90)], {"20": 81}),
        ([(50, LOAD, 0), (100, TOUCH, 40), (150, TOUCH, 90), (200, SLEEP, 99), (250, SLEEP, 99)], {"20": 90}),
        ([(50, LOAD, 0), (100, TOUCH, 40), (150, TOUCH, 90), (200, SLEEP, 90), (250, SLEEP, 92)], {"20": 90}),
        ([(50, LOAD, 0), (100, TOUCH, 40), (150, SLEEP, 90), (200, SLEEP, 90)], {"20": 40}),
        ([(50, LOAD, 0), (100, SLEEP, 0), (150, TOUCH, 50), (200, TOUCH, 90)], {"20": 40}),
        ([(50, LOAD, 0), (100, TOUCH, 40), (150, TOUCH, 60), (200, SLEEP, 60), (250, SLEEP, 90)], {"20": 60, "30": 30}),
        ([(50, LOAD, 0), (100, SLEEP, 0), (150, TOUCH, 50), (200, SLEEP, 90)], {}),
        ([(50, LOAD, 90), (100, SLEEP, 90), (150, SLEEP, 90)], {}),
    ],
    ids=[
        "what-the-load-read-before", "the-end-of-a-touch-is-seen-later", "what-else-reads-a-little", "a-short-touch",
        "begun-between-looks", "two-lines", "nobody-can-know", "nothing",
    ],
)  # fmt: skip
def test_a_line_had_read_what_was_read_while_it_was_seen(
    looks: list[tuple[int, int, int]], expected: dict[str, int]
) -> None:
    assert read_by(*looks) == expected
