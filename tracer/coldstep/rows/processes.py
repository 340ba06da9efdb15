"""Puts the rows of a job's processes, each read by itself, into one trace: one time, one numbering."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import fields
from typing import Any

from coldstep.model import MemoryPeak, Process, Run, Trace
from coldstep.rows import intervals
from coldstep.rows.intervals import Alike

_OUTSIDE = ("ok", "killed", "terminated", "running")  # no error of the process's own: a launcher ends the others


def joined(traces: Sequence[Trace]) -> Trace:
    """One trace of them all; ids are already distinct. Times count from the entry of the first `trace()`."""
    if len(traces) == 1:
        return traces[0]
    origin = min(trace.origin_ns for trace in traces)
    first = 0
    for trace in traces:
        _shift(trace, first, trace.origin_ns - origin)
        first += len(trace.intervals)
    whole = traces[0]
    whole.run = _run(traces)
    peaks = [(trace.memory.peak_rss_bytes, trace.memory.device_peak_bytes) for trace in traces]
    whole.memory = MemoryPeak(*map(largest, zip(*peaks, strict=True)))
    whole.origin_ns = origin
    whole.intervals = intervals.joined(trace.intervals for trace in traces)
    for trace in traces[1:]:
        for part in fields(Trace):
            rows, more = getattr(whole, part.name), getattr(trace, part.name)
            if isinstance(rows, list) and part.name != "intervals":
                rows.extend(more)
            elif isinstance(rows, dict):
                rows.update(more)
        whole.vocabulary = whole.vocabulary.joined(trace.vocabulary)
    return whole


def name(trace: Trace, process: int) -> str:
    """What a process of the job is called: "rank 3", its own name, else "process 3"."""
    own = trace.processes[process]
    called = _called(own)
    alike = sum(_called(each) == called for each in trace.processes)
    return called if alike == 1 else f"{called} (process {own.pid})"


def nearest_above(trace: Trace, process: Process, these: Collection[int]) -> int | None:
    """The nearest process above one in a job that is one of `these`, by their indices."""
    while (above := process.parent) is not None and above not in these:
        process = trace.processes[above]
    return above


def _shift(trace: Trace, first: int, ns: int) -> None:
    """Count intervals from `first` on, and times from `ns` earlier."""
    for collector in trace.collectors:
        if collector.since_ns is not None:
            collector.since_ns += ns
    for part in intervals.parts(trace.intervals):
        part.index += first
        if isinstance(part, Alike):
            part.zero -= ns
        else:
            part.start_ns += ns
    for ready in trace.ready:
        ready.ns += ns
    both: list[Any] = [segment for compile_ in trace.compiles for segment in compile_.segments]
    both += [*trace.builds, *trace.transfers]
    timed: list[Any] = [*both, *trace.processes, *trace.unplaced, *trace.children]
    for each in timed:
        each.start_ns += ns
    failures = [details.failure for details in trace.details.values() if details.failure is not None]
    placed: list[Any] = [*both, *trace.autotuning, *trace.cuda_graphs, *trace.graph_breaks, *failures]
    for each in placed:
        each.interval += first
    for reported in trace.reported:
        reported.interval = first + (reported.interval or 0)
    trace.counters = {key: [(at + ns, value) for at, value in points] for key, points in trace.counters.items()}
    if first and trace.unfinished is not None:
        # one step of the job may be unfinished: those of the other processes are the time after their last whole one
        cut = trace.intervals[trace.unfinished]
        cut.kind, cut.step, cut.name, cut.measures, cut.python_dispatches = "after", None, None, None, None
        trace.unfinished = None
    # the compiles of one identity are one process's
    index = trace.processes[0].index
    if index:
        for known in trace.details.values():
            known.identity = f"{index}:{known.identity}"


def _run(traces: Sequence[Trace]) -> Run:
    """The job as a whole: how the first process ended that did not end well; every note with its process."""
    runs = [trace.run for trace in traces]
    ended = next((run for run in runs if run.ended not in _OUTSIDE), None)
    ended = ended or next((run for run in runs if run.ended != "ok"), runs[0])
    start = min(trace.processes[0].start_ns for trace in traces)
    end = max(process.start_ns + process.wall_ns for trace in traces for process in trace.processes)
    run = runs[0]
    run.started = min(run.started for run in runs)
    run.wall_ns = end - start
    run.ended, run.error = ended.ended, ended.error
    run.dropped.ledger = sum(run.dropped.ledger for run in runs)
    run.dropped.bulk = sum(run.dropped.bulk for run in runs)
    shared = [set(run.labels.items()) for run in runs]
    run.labels = {name: value for name, value in run.labels.items() if all((name, value) in each for each in shared)}
    run.notes = [f"{_called(trace.processes[0])}: {note}" for trace in traces for note in trace.run.notes]
    return run


def _called(process: Process) -> str:
    if process.rank is not None:
        return f"rank {process.rank}"
    return process.name or f"process {process.index}"


def largest(values: Iterable[int | None]) -> int | None:
    """The largest of those that are known."""
    return max((value for value in values if value is not None), default=None)
