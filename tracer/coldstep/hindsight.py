"""Writes findings back into the trace that they were found in, so that Perfetto shows what only hindsight knows."""

from __future__ import annotations

from collections.abc import Container, Sequence

from coldstep.intervals import alone
from coldstep.model import Trace
from coldstep.pftrace.layout import FINDING, INFERRED, step_name
from coldstep.pftrace.writer import Writer


def write_findings(
    trace: Trace, writer: Writer, tracks: Sequence[int | None], kinds: Container[str] | None = None
) -> None:
    """Append the findings of `trace`, or those of `kinds`, to the track that each process has for them, if it has one.

    A finding stands where its interval begins, and that of a compile after `ready()` where the compile does; one that
    is of no interval, where its process ends.
    """
    begins = {row.id: row.segments[0].start_ns for row in trace.compiles}
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


def write_steps(trace: Trace, writer: Writer, track: int) -> None:
    """Draw the steps of a process that marks none: which they are was not known before its end. A reader finds them
    anew."""
    for interval in alone(trace.intervals):
        by = interval.inferred_by
        if interval.kind != "step" or by is None or by.rule == "sync":
            continue
        counted = interval.label not in ("steady", "settling") or bool(interval.compiles)
        word = "first" if interval.step == 0 else "compiled" if counted else "clean"
        start = trace.origin_ns + interval.start_ns
        title = step_name(interval.name or "step", interval.step or 0, word)
        writer.begin(start, track, "", INFERRED, {"source": interval.source, "of": by.of}, title=title)
        writer.end(start + interval.wall_ns, track)
    writer.flush()
