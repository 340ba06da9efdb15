"""Names unattributed time before the first step by the user's lines that were sampled in it."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable

from coldstep.loading.slices import Locations, Rows
from coldstep.model import Interval

HELD = "calls into C that kept the interpreter's lock"
_LEAST_SHARE = 0.1  # of an interval: less is worth no name
_ALONE = 0.9  # of the samples: a line below which nearly all lie says less than the lines that it calls

Stack = tuple[str, ...]
"""The user's lines that called each other, outermost first: "train.py:12"."""


def name_by_lines(rows: Rows, locations: Locations, nameless: Iterable[tuple[Interval, int, int]]) -> None:
    """Fill in `sampled` of each interval in which much is unattributed, from the samples of these stretches."""
    held, samples = _samples(rows, locations)
    if not samples:
        return
    stamps = [sample[0] for sample in samples]
    seen: dict[int, Counter[Stack]] = defaultdict(Counter)
    intervals: dict[int, Interval] = {}
    for interval, start, end in nameless:
        intervals[interval.index] = interval
        for _, took, stack in samples[bisect_left(stamps, start) : bisect_left(stamps, end)]:
            seen[interval.index][stack] += took
    for index, stacks in seen.items():
        interval = intervals[index]
        left = interval.unattributed_ns
        if left < _LEAST_SHARE * interval.wall_ns:
            continue
        for line, ns in _told_apart(stacks).most_common():
            interval.sampled[line] = took = min(left, ns)
            left -= took
        if missed := min(left, held):
            interval.sampled[HELD] = missed


def _samples(rows: Rows, locations: Locations) -> tuple[int, list[tuple[int, int, Stack]]]:
    """How long nobody could look; and when each sample was taken, what it counts for, and where the program was."""
    held = 0
    samples: list[tuple[int, int, Stack]] = []
    for args in rows.lines:
        held += int(args.get("held_ns", 0))
        for row in args.get("sampled") or []:
            places = (locations.read(place) for place in row.get("stack") or [])
            stack = tuple(f"{place.file}:{place.line}" for place in places if place is not None)
            for ns, took in zip(row.get("at") or [], row.get("for_ns") or [], strict=False):
                samples += [(int(ns), max(0, int(took)), stack)] if stack else []
    return held, sorted(samples, key=lambda sample: sample[0])


def _told_apart(stacks: Counter[Stack]) -> Counter[str]:
    """The outermost lines that tell the samples apart: below `main()` these are the lines of main."""
    depth = 0
    while True:
        lines: Counter[str] = Counter()
        for stack, count in stacks.items():
            lines[stack[min(depth, len(stack) - 1)]] += count
        [(_, count)] = lines.most_common(1)
        goes_on = any(len(stack) > depth + 1 for stack in stacks)
        if count < _ALONE * stacks.total() or not goes_on:
            return lines
        depth += 1
