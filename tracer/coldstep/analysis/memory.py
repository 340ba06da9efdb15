"""What memory did: per interval and at its peak, how it grows from step to step, and what it ran out of."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise

from coldstep._util.expressions import expression
from coldstep._util.figures import size
from coldstep._util.slotted import slotted
from coldstep.analysis.make_finding import About, finding
from coldstep.model import Compile, Finding, Interval, Trace
from coldstep.pftrace.layout import AVAILABLE, DEVICE, DEVICE_PEAK, RSS
from coldstep.rows.intervals import Alike, Intervals, Part, end_ns, kinds, parts

_UNITS = {"bytes": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
          "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}  # fmt: skip
_AMOUNT = r"(\d[\d.]*)\s?(bytes|B\b|[KMGT]i?B)"
# PyTorch: "CUDA out of memory. Tried to allocate 2.50 GiB."
# XLA: "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4294967296 bytes."
_ASKED = expression(rf"allocat\w*(?: request for)?:? {_AMOUNT}", re.IGNORECASE)
# PyTorch: "GPU 0 has a total capacity of 79.11 GiB of which 1.25 GiB is free."
_FREE = expression(rf"of which {_AMOUNT} is free", re.IGNORECASE)
_ALIKE_CHARS = 60  # an error may be told at different lengths
_MIN_PAIRS = 30  # of a steady step and the one before it: of fewer, growth is how a process warms up
_MIN_GROWTH_BYTES = 1 << 20  # with each step: less is how an allocator and the sampling of it vary
_TIGHT_SHARE = 0.1  # of a limit: with less left, a process that was killed was probably killed by it


@slotted
class StepMemory:
    """The resident memory of the steps of one name; `growth_bytes` is what each steady step added, None where it is
    not known, or nothing to speak of."""

    process: int
    name: str
    peak_bytes: int
    peak_step: int
    growth_bytes: int | None


def fill(trace: Trace) -> None:
    """Say of each interval how large the process and its device memory were at most, and so of the run."""
    if isinstance(trace.intervals, Intervals):
        trace.intervals.apart(set(_moves(trace)))
    for process in trace.processes:
        own = [part for part in parts(trace.intervals) if part.process == process.index]
        for row, value in zip(own, _highest(trace, process.index, RSS, own), strict=True):
            row.rss_bytes = value
        for device in _curves(trace, process.index, DEVICE):
            for row, value in zip(own, _highest(trace, process.index, device, own), strict=True):
                if value is not None:
                    row.device_bytes = (row.device_bytes or 0) + value
    # a killed process could not tell its peak itself, and the kernel tells it with some delay
    seen = [trace.memory.peak_rss_bytes, *(part.rss_bytes for part in parts(trace.intervals))]
    trace.memory.peak_rss_bytes = max((bytes_ for bytes_ in seen if bytes_ is not None), default=None)
    peaks = (_device_peak(trace, process.index) for process in trace.processes)
    trace.memory.device_peak_bytes = max((peak for peak in peaks if peak is not None), default=None)


def of_steps(trace: Trace) -> list[StepMemory]:
    """The memory of each kind of step."""
    peaks = []
    for (process, name), steps in kinds(trace.intervals, trace.unfinished).items():
        rows = [part for part in steps.parts if part.rss_bytes is not None]
        if rows:
            peak = max(rows, key=lambda part: part.rss_bytes or 0)
            peaks.append(StepMemory(process, name, peak.rss_bytes or 0, peak.step or 0, _growth(trace, process, name)))
    return peaks


def _growth(trace: Trace, process: int, name: str) -> int | None:
    """How much larger the process was in a steady step than in the one before it, on average: not in the first third,
    which may warm up, and only where it has grown in both of the others, for one leap is no growth."""
    pairs = list(_pairs(trace, process, name))
    number = sum(count for _, count in pairs)
    if number < _MIN_PAIRS:
        return None
    thirds, at = [0, 0, 0], 0
    for grown, count in pairs:
        thirds[3 * at // number] += grown
        at += count
    growth = [3 * grown // number for grown in thirds[1:]]
    return sum(growth) // 2 if min(growth) >= _MIN_GROWTH_BYTES else None


def _pairs(trace: Trace, process: int, name: str) -> Iterator[tuple[int, int]]:
    """What a steady step had more than the steady one before it, and in how many pairs in a row it was so little.

    Only where nothing but a gap without compiles lies between the two: what a recompiled step has added is not theirs.
    """
    before: Part | None = None
    alone = True
    for part in parts(trace.intervals):
        if part.process != process:
            continue
        is_step = isinstance(part, Alike) or part.kind == "step"
        if is_step and part.name == name and part.index != trace.unfinished and part.rss_bytes is not None:
            if before is not None and alone and before.label == part.label == "steady":
                yield part.rss_bytes - (before.rss_bytes or 0), 1
            if isinstance(part, Alike) and part.label == "steady" and part.steps > 1:
                yield 0, part.steps - 1
            before, alone = part, True
        elif isinstance(part, Alike) or part.kind != "between" or part.compiles:
            alone = False


def out_of_memory(trace: Trace) -> Iterator[Finding]:
    """What a process asked for that it could not have: where, in which step and compile, and what there was."""
    for process in trace.processes:
        intervals = [part for part in parts(trace.intervals) if part.process == process.index]
        if process.ended == "out_of_memory":
            yield _ran_out(trace, process.index, intervals)
        elif process.ended == "killed" and intervals:
            yield from _tightest(trace, process.index, _last(intervals[-1]))


def _ran_out(trace: Trace, process: int, intervals: list[Part]) -> Finding:
    failure = trace.failures.get(process)
    error = (failure.error if failure else None) or ""
    steps = [part for part in intervals if isinstance(part, Alike) or part.kind == "step"]
    # a step that an error ends is the last one, and the error is what the trace ends with
    row = _last(steps[-1] if failure and failure.in_step and steps else intervals[-1])
    compile_ = _failed(trace, row, error)
    # a compile's own error says more than the first line of the one that it became
    error = (trace.details[compile_.id].error if compile_ else None) or error
    asked = _amount(_ASKED, error)
    available = _amount(_FREE, error)
    limits = list(_left(trace, process, row.start_ns, row.start_ns + row.wall_ns))
    words = [f"asked for {size(asked)}"] if asked is not None else []
    if available is not None:
        words.append(f"{size(available)} were free on the device")
    elif limits:
        limit, left = min(limits, key=lambda each: each[1])
        words.append(f"{size(left)} were left {limit}")
    where = f" in step {row.step} of {row.name}" if row.kind == "step" else f" {_WHEN[row.kind]}"
    doing = f", compiling {compile_.function}" if compile_ else ""
    place = failure.location if failure else None
    if place is not None and compile_ is None:
        doing = f", in {place.function} ({place.file}:{place.line})"
    evidence = [error] if error else []
    evidence += [f"{size(left)} left {limit} when least was" for limit, left in limits]
    if row.rss_bytes is not None:
        evidence.append(f"the process held {size(row.rss_bytes)}")
    text = f"Out of memory{where}{doing}{': ' if words else ''}{', '.join(words)}"
    refs, location = ([compile_.id], place or compile_.location) if compile_ else ([], place)
    about = About(severity="error", cost_ns=row.wall_ns, evidence=evidence, refs=refs)
    return finding("out_of_memory", text, at=row, location=location, **about)


_WHEN = {"before": "before the first step", "between": "between two steps", "after": "after the last step"}


def _tightest(trace: Trace, process: int, last: Interval) -> Iterator[Finding]:
    """A process that was killed with next to nothing left of one of its limits: what killed it cannot be proven."""
    held = last.rss_bytes or 0
    left_over = _left(trace, process, last.start_ns + last.wall_ns, None)
    tight = [(limit, left) for limit, left in left_over if left < _TIGHT_SHARE * (held + left)]
    if tight and held:
        limit, left = min(tight, key=lambda each: each[1])
        where = f" in step {last.step} of {last.name}" if last.kind == "step" else ""
        text = f"Killed{where} with {size(left)} left {limit}: probably because memory ran out"
        evidence = [f"the process held {size(held)} at the last sample"]
        yield finding("out_of_memory", text, at=last, cost_ns=last.wall_ns, evidence=evidence)


def _failed(trace: Trace, row: Interval, error: str) -> Compile | None:
    """The compile of that interval that failed of this error, or had not ended."""
    for compile_ in reversed(trace.compiles):
        if compile_.process != row.process or not any(segment.interval == row.index for segment in compile_.segments):
            continue
        message = trace.details[compile_.id].error.partition("\n")[0]
        alike = bool(message) and message[:_ALIKE_CHARS] in error
        if compile_.outcome == "in_progress" or (compile_.outcome == "failed" and alike):
            return compile_
    return None


def _amount(pattern: re.Pattern[str], text: str) -> int | None:
    match = pattern.search(text)
    return int(float(match[1]) * _UNITS[match[2].lower()]) if match else None


def _left(trace: Trace, process: int, begin_ns: int, until_ns: int | None) -> Iterator[tuple[str, int]]:
    """What was left of each limit when least was, between these times: an error frees much before it is told."""
    for name in _curves(trace, process, AVAILABLE):
        points = trace.counters[process, name]
        first = max(0, bisect_right(points, (begin_ns, float("inf"))) - 1)
        last = bisect_right(points, (until_ns, float("inf"))) if until_ns is not None else len(points)
        if points:
            yield name.removeprefix(AVAILABLE), round(min(left for _, left in points[first : max(last, first + 1)]))


def _curves(trace: Trace, process: int, start: str) -> list[str]:
    return [name for owner, name in trace.counters if owner == process and name.startswith(start)]


def _device_peak(trace: Trace, process: int) -> int | None:
    """Of all devices together, each at its own peak; the allocator's own figure where it keeps one."""
    peaks = {}
    for name in [*_curves(trace, process, DEVICE), *_curves(trace, process, DEVICE_PEAK)]:
        device = name.removeprefix(DEVICE).removeprefix(DEVICE_PEAK)
        peaks[device] = max(value for _, value in trace.counters[process, name])
    return round(sum(peaks.values())) if peaks else None


def _moves(trace: Trace) -> Iterator[int]:
    """The steps (by index) that are alike others and in which a curve moves: what is alike has one value."""
    for process in trace.processes:
        own = [part for part in parts(trace.intervals) if part.process == process.index]
        starts = [part.start_ns for part in own]
        for name in (RSS, *_curves(trace, process.index, DEVICE)):
            for (_, before), (at, value) in pairwise([(0, None), *trace.counters.get((process.index, name), [])]):
                part = own[max(0, bisect_right(starts, at) - 1)]
                if isinstance(part, Alike) and value != before:
                    yield part.index + part.at(at)


def _last(part: Part) -> Interval:
    return part.row(len(part) - 1) if isinstance(part, Alike) else part


def _highest(trace: Trace, process: int, name: str, intervals: Sequence[Part]) -> Iterator[int | None]:
    """The curve's highest value in each interval; between two points it holds the earlier one's value."""
    points = trace.counters.get((process, name), [])
    at = 0
    current: float | None = None
    for row in intervals:
        highest = current
        while at < len(points) and points[at][0] < end_ns(row):
            current = points[at][1]
            highest = current if highest is None else max(highest, current)
            at += 1
        yield None if highest is None else round(highest)
