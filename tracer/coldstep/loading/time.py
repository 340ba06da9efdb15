"""What the time of a process went to: intervals without a gap, their phases, and what ran beside them."""

from __future__ import annotations

import sys
from collections import defaultdict
from itertools import pairwise
from operator import attrgetter, itemgetter
from typing import cast

from coldstep._util.gathered import gathered
from coldstep._util.slotted import slotted
from coldstep.loading.folding import FOLDED, holds
from coldstep.loading.lines import name_by_lines
from coldstep.loading.row_types import StepRow
from coldstep.loading.slices import Locations, Rows
from coldstep.model import UNATTRIBUTED, Interval, IntervalKind, Measures, Wait
from coldstep.pftrace import layout
from coldstep.rows.intervals import Alike, Intervals, Part, end_ns
from coldstep.rows.ledger import within

_DEEPEST = 64  # compiles inside each other that a stretch of time counts for


@slotted
class Stretch:
    """A stretch of a thread's time in one phase, and the segments (ids of slices) that it lies in."""

    tid: int
    phase: str
    start: int
    end: int
    segments: list[int]


@slotted
class Timeline:
    """The intervals of a process, and the monotonic time at which the first begins."""

    intervals: Intervals
    start: int
    unfinished: int | None
    """The index of the step that was still open where the file ends."""

    def at(self, ns: int) -> int:
        """The index of the interval in which that time lies."""
        return self.intervals.at(ns - self.start)


def timeline(rows: Rows, locations: Locations, stretches: list[Stretch], *, counted: bool) -> Timeline:
    """All that is known of a process's time; `counted`: the calls that left JAX's fast path were seen."""
    steps, unfinished = _steps(rows)
    parts = _intervals(rows, steps, unfinished, counted)
    intervals = Intervals(parts)
    nameless = _fill_phases(rows, parts)
    made = Timeline(intervals, rows.start, len(intervals) - 1 if unfinished else None)
    owners = _owners(rows, made)
    rows.nameless = [each for each in nameless if rows.waits and each[0].index not in owners]
    _fill_waits(rows, made, owners, stretches)
    if not rows.samples:
        name_by_lines(rows, locations, (each for each in nameless if each[0].index not in owners))
    for interval, start, end in nameless if rows.samples else ():
        for what, ns in rows.samples.inside(owners.get(interval.index, rows.run.tid), start, end).items():
            interval.sampled[what] = interval.sampled.get(what, 0) + ns
    intervals.apart({made.at(start) for start, _, _ in rows.inside})
    for start, what, ns in rows.inside:
        inside = intervals[made.at(start)].inside
        inside[what] = inside.get(what, 0) + ns
    return made


def thread_stretches(rows: Rows) -> list[Stretch]:
    """Each thread's time in phases, innermost phase first come."""
    threads = gathered((piece.track.tid, piece) for piece in rows.slices)
    stretches: list[Stretch] = []
    for tid, pieces in threads.items():
        at = rows.start
        # of each open slice: when it ends, and the phase and the segments that time inside it is in
        open_: list[tuple[int, str | None, list[int]]] = [(sys.maxsize, None, [])]
        for piece in sorted(pieces, key=lambda piece: (piece.start, -piece.end)):
            while (end := open_[-1][0]) <= piece.start:
                at = _stretch(stretches, tid, open_.pop(), at, end)
            at = _stretch(stretches, tid, open_[-1], at, piece.start)
            _, phase, segments = open_[-1]
            if piece.category == layout.COMPILE:
                segments = [*segments[-_DEEPEST:], id(piece)]
            elif piece.is_phase:
                phase = within(phase, piece.category)
            open_.append((piece.end, phase, segments))
        for innermost in open_[:0:-1]:
            at = _stretch(stretches, tid, innermost, at, innermost[0])
    return stretches


def segment_phases(stretches: list[Stretch]) -> dict[int, dict[str, int]]:
    """Per segment (the id of its slice): the time of each innermost phase of its thread, nested compiles' too."""
    phases: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for stretch in stretches:
        for segment in stretch.segments:
            phases[segment][stretch.phase] += stretch.end - stretch.start
    return {segment: dict(shares) for segment, shares in phases.items()}


def _marked(rows: Rows) -> list[StepRow]:
    """The slices of steps that count: where the program marks its steps, from when it began to, none were inferred."""
    return [step for step in rows.steps if not step.is_inferred] if rows.is_marked else rows.steps


def _steps(rows: Rows) -> tuple[list[StepRow], bool]:
    """The steps that are intervals, in order of time; whether the last one was still open where the file ends."""
    steps = _marked(rows)
    began = {(step.name, step.n) for step in rows.began}
    whole = began & {(step.name, step.n) for step in steps}
    unseen = (step for step in rows.began if (step.name, step.n) not in whole)
    cut = [step for step in unseen if not any(holds(run, step) for run in rows.folded)]
    unfinished = False
    for step in cut[-1:]:
        ended = rows.ended.get((step.name, step.n))
        unfinished = ended is None
        step.end = ended.ns if ended is not None else rows.stop
        step.args |= ended.args if ended is not None else {}
    return sorted([*steps, *cut], key=lambda step: step.start), unfinished


def _intervals(rows: Rows, steps: list[StepRow], unfinished: bool, counted: bool) -> list[Part]:
    """Before, steps, between, after: without a gap from the trace's start to its end."""
    intervals: list[Part] = []
    index = 0

    def add(kind: IntervalKind, start: int, end: int) -> Interval:
        """One more; what makes it a step is not filled in."""
        nonlocal index
        interval = Interval(
            index=index,
            process=rows.process,
            kind=kind,
            step=None,
            name=None,
            source="marked",
            label=None,
            measures=None,
            start_ns=start - rows.start,
            wall_ns=end - start,
        )
        intervals.append(interval)
        index += 1
        return interval

    at = rows.start
    units: list[StepRow | Alike] = [*steps, *rows.folded]
    for step in sorted(units, key=attrgetter("start")):
        args = step.shape.args if isinstance(step, Alike) else step.args
        measures = cast(Measures, str(args.get("measures", "dispatch")))
        counts = counted and (step.by is None or step.by.rule == "sync")  # whether it says how many left the fast path
        dispatches = int(args.get("python_dispatches", 0)) if counts else None
        if isinstance(step, Alike):
            step.index, step.zero = index, rows.start
            step.measures, step.python_dispatches = measures, dispatches
            intervals.append(step)
            index += len(step)
            at = step.end_ns + rows.start
            continue
        add("between" if intervals else "before", at, step.start)
        interval = add("step", step.start, step.end)
        interval.step, interval.name = step.n, step.name
        interval.source = "inferred" if step.is_inferred else "marked"
        interval.inferred_by = step.by
        interval.measures, interval.python_dispatches = measures, dispatches
        at = step.end
    if not unfinished:
        add("after" if intervals else "before", at, rows.stop)
    return intervals


def _fill_phases(rows: Rows, intervals: list[Part]) -> list[tuple[Interval, int, int]]:
    """Give each interval its share of the ledger; the stretches without a phase: interval, start, end."""
    ledger = list(rows.ledger)
    if rows.ledger_end is not None:
        ledger.append((rows.ledger_end, False, UNATTRIBUTED))
    # what was held back while device traces were recorded stands behind the rest; a gap gives way to it
    ledger.sort(key=itemgetter(0, 1))
    ledger.append((rows.stop, False, UNATTRIBUTED))
    ends = [end_ns(interval) + rows.start for interval in intervals]
    ends[-1] = sys.maxsize  # what is behind the last one counts for it
    nameless: list[tuple[Interval, int, int]] = []
    position = 0
    for (start, _, phase), (following, _, _) in pairwise(ledger):
        end = min(following, rows.stop)
        while phase is not FOLDED:
            while start >= ends[position]:
                position += 1
            interval = intervals[position]
            if isinstance(interval, Alike):
                break  # no time of that phase is left before it
            until = min(end, ends[position])  # only what a cut file lacks reaches over the end of an interval
            if phase != UNATTRIBUTED:
                interval.phases[phase] = interval.phases.get(phase, 0) + until - start
            else:
                interval.unattributed_ns += until - start
                nameless.append((interval, start, until))
            if until == end:
                break
            start = until
    return nameless


def _owners(rows: Rows, made: Timeline) -> dict[int, int]:
    """The thread of each interval (by index) that is not the trace's own thread's."""
    home = rows.run.tid
    owners: dict[int, int] = {}
    for step in [*_marked(rows), *rows.began]:
        if (tid := int(step.args.get("tid", home))) != home:
            owners[made.at(step.start)] = tid
    for run in rows.folded:
        if (tid := int(run.shape.args.get("tid", home))) != home:
            owners |= dict.fromkeys(range(run.index + 1, run.index + len(run), 2), tid)
    return owners


def _fill_waits(rows: Rows, made: Timeline, owners: dict[int, int], stretches: list[Stretch]) -> None:
    """What other threads, and other processes, worked on meanwhile, by phase."""
    intervals, home = made.intervals, rows.run.tid
    work: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    threads = {home, *owners.values()}
    for stretch in stretches:
        if threads == {stretch.tid}:  # no other thread's time
            continue
        start, index = stretch.start, made.at(stretch.start)
        while start < stretch.end:
            last = index == len(intervals) - 1
            until = stretch.end if last else min(stretch.end, end_ns(intervals[index]) + rows.start)
            if owners.get(index, home) != stretch.tid:
                work[index][stretch.phase] += until - start
            start, index = until, index + 1
    waits: dict[int, list[Wait]] = defaultdict(list)
    for index, phases in work.items():
        waits[index] = [Wait(phase, rows.run.pid, ns) for phase, ns in sorted(phases.items())]
    for piece in rows.work:
        start, index = piece.start, made.at(piece.start)
        while piece.category and start < piece.end and index < len(intervals):
            until = min(piece.end, end_ns(intervals[index]) + rows.start)
            if until > start:
                waits[index].append(Wait(piece.category, int(piece.args.get("pid", 0)), until - start))
            start, index = max(start, until), index + 1
    intervals.apart(waits)
    for index, waited in waits.items():
        intervals[index].waits = waited


def _stretch(
    stretches: list[Stretch], tid: int, innermost: tuple[int, str | None, list[int]], at: int, until: int
) -> int:
    """Add the time from `at` to `until`, if it has a phase; where it ends."""
    _, phase, segments = innermost
    if phase is not None and until > at:
        stretches.append(Stretch(tid, phase, at, until, segments))
    return max(at, until)
