"""Writes findings back into the trace that they were found in, so that Perfetto shows what only hindsight knows."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterator, Sequence
from typing import TYPE_CHECKING

from coldstep.loading import load
from coldstep.model import Interval, Trace
from coldstep.pftrace import proto
from coldstep.pftrace.layout import FINDING, INFERRED, parse, step_name
from coldstep.pftrace.reader import EventRow, TrackRow, rows
from coldstep.pftrace.writer import Writer
from coldstep.rows.intervals import alone

if TYPE_CHECKING:
    from coldstep.recording.recorder import Recorder


def write_hindsight(path: str, recorder: Recorder) -> Trace:
    """Read back the file that a recorder has finished, and append to it what only hindsight knows."""
    trace = load(path, job=False)
    write_steps(trace, path, recorder.writer, recorder.steps.track)
    write_findings(trace, recorder.writer, [recorder.findings])
    return trace


def write_findings(
    trace: Trace, writer: Writer, tracks: Sequence[int | None], kinds: Container[str] | None = None
) -> None:
    """Append the findings of `trace`, or those of `kinds`, to the track that each process has for them, if it has one.

    A finding stands where its interval begins, and that of a compile after `ready()` where the compile does; one that
    is of no interval, where its process ends.
    """
    begins = {row.id: row.segments[0].start_ns for row in trace.compiles}
    begins |= {row.id: row.start_ns for row in trace.builds}
    for finding in trace.findings:
        track = tracks[finding.process]
        if track is None or (kinds is not None and finding.kind not in kinds):
            continue
        if finding.kind == "after_ready":  # an interval may have begun before that was said
            start_ns = begins[finding.refs[0]]
        elif finding.interval is not None:
            start_ns = trace.intervals[finding.interval].start_ns
        else:
            process = trace.processes[finding.process]
            start_ns = process.start_ns + process.wall_ns
        args = {"text": finding.text, "advice": finding.advice, "evidence": finding.evidence, "id": finding.id}
        writer.instant(trace.origin_ns + start_ns, track, finding.kind, FINDING, args)
    writer.flush()


def write_steps(trace: Trace, path: str, writer: Writer, track: int) -> None:
    """Draw the steps of a process that marks none: which they are was not known before its end. A reader finds them
    anew. `trace` is what the file at `path` holds so far."""
    steps = list(_inferred(trace))
    for interval in steps:
        counted = interval.label not in ("steady", "settling") or bool(interval.compiles)
        word = "first" if interval.step == 0 else "compiled" if counted else "clean"
        start = trace.origin_ns + interval.start_ns
        title = step_name(interval.name or "step", interval.step or 0, word)
        of = interval.inferred_by.of if interval.inferred_by is not None else None
        writer.begin(start, track, "", INFERRED, {"source": interval.source, "of": of}, title=title)
        writer.end(start + interval.wall_ns, track)
    if steps:
        ends = {row.start_ns for row in steps} | {row.start_ns + row.wall_ns for row in steps}
        _cut_phases(path, sorted(trace.origin_ns + ns for ns in ends), writer)
    writer.flush()


def _inferred(trace: Trace) -> Iterator[Interval]:
    for interval in alone(trace.intervals):
        by = interval.inferred_by
        if interval.kind == "step" and by is not None and by.rule != "sync":  # a sync's was cut when it came
            yield interval


def _cut_phases(path: str, times: Sequence[int], writer: Writer) -> None:
    """Cut what is drawn of the ledger at these times, so that each slice of it lies in one interval. Perfetto puts a
    track's events in the order of time: an end and a begin that come late make two slices of one."""
    tracks: set[int] = set()
    begun: dict[int, EventRow] = {}
    cuts: list[tuple[int, int, str]] = []
    for row in rows(path):
        if isinstance(row, TrackRow):
            if (track := parse(row.about)) is not None and track.kind == "phases":
                tracks.add(row.uuid)
        elif row.track not in tracks:
            continue
        elif row.kind == proto.SLICE_BEGIN:
            begun[row.track] = row
        elif row.kind == proto.SLICE_END and (begin := begun.pop(row.track, None)) is not None:
            inside = times[bisect_right(times, begin.ns) : bisect_left(times, row.ns)]
            cuts += [(ns, row.track, begin.name) for ns in inside]
    for ns, uuid, phase in sorted(cuts):
        writer.end(ns, uuid)
        writer.begin(ns, uuid, phase)
