"""Names unattributed time before the first step by the user's lines that were sampled in it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable

from coldstep._util.gathered import summed
from coldstep.loading.slices import Locations, Rows
from coldstep.model import Interval
from coldstep.pftrace.layout import READ

HELD = "calls into C that kept the interpreter's lock"
_LEAST_SHARE = 0.1  # of an interval: less is worth no name
_ALONE = 0.9  # of the samples: a line below which nearly all lie says less than the lines that it calls

Stack = tuple[str, ...]
"""The user's lines that called each other, outermost first: "train.py:12"."""


def name_by_lines(rows: Rows, locations: Locations, nameless: Iterable[tuple[Interval, int, int]]) -> None:
    """Fill in `sampled` of each interval in which much is unattributed, from the samples of these stretches; and
    `read_bytes`, where bytes read from disk may be pages of weights that were only mapped."""
    held, samples = _samples(rows, locations)
    if not samples:
        return
    stamps = [sample[0] for sample in samples]
    read = _reads(rows, samples)
    seen: dict[int, Counter[Stack]] = defaultdict(Counter)
    reads: dict[int, Counter[tuple[Stack | None, Stack]]] = defaultdict(Counter)
    intervals: dict[int, Interval] = {}
    for interval, start, end in nameless:
        intervals[interval.index] = interval
        for at in range(bisect_left(stamps, start), bisect_left(stamps, end)):
            _, took, stack = samples[at]
            seen[interval.index][stack] += took
            since, size = read[at]
            reads[interval.index][since, stack] += size
    for index, stacks in seen.items():
        interval = intervals[index]
        left = interval.unattributed_ns
        if left < _LEAST_SHARE * interval.wall_ns:
            continue
        named = _told_apart(stacks)
        for line, ns in _by_line(stacks, named).most_common():
            interval.sampled[line] = took = min(left, ns)
            left -= took
        interval.read_bytes = _by_reader(reads[index], named)
        if missed := min(left, held):
            interval.sampled[HELD] = missed


def _reads(rows: Rows, samples: list[tuple[int, int, Stack]]) -> list[tuple[Stack | None, int]]:
    """Of each sample: how much was read from disk since the last one, once weights had been mapped, and where the
    program was then; None where it mapped them meanwhile."""
    mapped = min((piece.end for piece in rows.slices if piece.args.get("mapped")), default=None)
    points = sorted(rows.counters.get(READ, []))
    if mapped is None or not points:
        return [(None, 0)] * len(samples)
    stamps = [ns for ns, _ in points]

    def value(ns: int) -> float:
        return points[max(0, bisect_right(stamps, ns) - 1)][1]

    reads: list[tuple[Stack | None, int]] = []
    last, before = 0, None
    for ns, took, stack in samples:
        size = round(max(0.0, value(ns) - value(max(mapped, ns - took)))) if ns > mapped else 0
        reads.append((before if last > mapped else None, size))
        last, before = ns, stack
    return reads


def _by_reader(reads: Counter[tuple[Stack | None, Stack]], named: dict[Stack, str]) -> dict[str, int]:
    """What each line had read. Between looks at two lines either may have; less than a tenth any line may read."""
    sizes = summed(
        (named[stack], size)
        for (since, stack), size in reads.items()
        if since is None or named.get(since) == named[stack]
    )
    return {line: size for line, size in sizes.items() if size > _LEAST_SHARE * reads.total()}


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


def _told_apart(stacks: Counter[Stack]) -> dict[Stack, str]:
    """Of each stack the outermost line that tells the samples apart: below `main()` these are the lines of main."""
    depth = 0
    while True:
        named = {stack: stack[min(depth, len(stack) - 1)] for stack in stacks}
        [(_, count)] = _by_line(stacks, named).most_common(1)
        goes_on = any(len(stack) > depth + 1 for stack in stacks)
        if count < _ALONE * stacks.total() or not goes_on:
            return named
        depth += 1


def _by_line(stacks: Counter[Stack], named: dict[Stack, str]) -> Counter[str]:
    return summed((named[stack], count) for stack, count in stacks.items())
