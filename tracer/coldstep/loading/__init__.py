"""Reads a trace file into the rows of `coldstep.model`: events by kind, then time, then compiles."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import cast

from coldstep._util.arguments import text
from coldstep.analysis.recompiles.rows import recompiles
from coldstep.blind_spots import DISPATCHES, known_claims, left_open
from coldstep.clock import now
from coldstep.errors import TraceError, damaged
from coldstep.events import Args
from coldstep.job.parts import parts_of
from coldstep.job.tree import as_job, one_clock
from coldstep.loading.autotuning import autotuning
from coldstep.loading.builds import builds, transfers
from coldstep.loading.compiles import CompileReader
from coldstep.loading.inferred_steps import infer
from coldstep.loading.job_ready import job_ready
from coldstep.loading.slices import Locations, Rows
from coldstep.loading.time import Timeline, thread_stretches, timeline
from coldstep.loading.unended import last_word, lives, place_in
from coldstep.loading.unplaced import children, started, unplaced
from coldstep.loading.waits import fill_waiting
from coldstep.model import (
    CollectorRow,
    CollectorState,
    Dropped,
    Ending,
    Failure,
    Location,
    MemoryPeak,
    Process,
    Ready,
    Run,
    Trace,
)
from coldstep.pftrace import layout
from coldstep.pftrace.reader import EventRow, folded
from coldstep.pftrace.repeats import Repeats
from coldstep.rows.intervals import alone
from coldstep.rows.intervals import joined as whole
from coldstep.rows.processes import joined
from coldstep.run_row import run_row


def load(path: str | os.PathLike[str], *, step: str | None = None, job: bool = True) -> Trace:
    """Load the trace in the file at `path`, with everything that is derived from it. This needs no framework.

    If the program marks no steps, `step` chooses the step: a function ("update"), a line ("train.py:41"), or
    "optimizer", "trainer", "call".

    If `path` is the FILE of a job (`coldstep run`, `COLDSTEP=FILE`), the trace holds all processes of the newest job;
    with `job=False` it holds the one process that wrote the file.

    A file that a kill cut off loads up to the cut. Raises TraceError (a ValueError with a message of one line) if the
    file is missing, empty or no trace, if its schema is too old or too new, or if the trace has no such `step`.
    """
    from coldstep.analysis.derive import analyse  # here: `explained` has no need of most of it

    with damaged(path):
        parts = parts_of(os.fspath(path)) if job else [os.fspath(path)]
        trace, processes = _read(Path(path), step, parts, job=job)
        trace = analyse(trace)
        trace.job_ready = job_ready(trace, processes)
        return trace


def explained(path: str | os.PathLike[str]) -> Trace:
    """The rows of the file itself, and why everything was compiled again; the other derived rows are empty."""
    trace = read(path)
    trace.recompiles = recompiles(trace)
    return trace


def read(path: str | os.PathLike[str], *, step: str | None = None) -> Trace:
    """Only the rows of the file itself; the derived rows are empty."""
    with damaged(path):
        return _read(Path(path), step, [os.fspath(path)])[0]


def not_ours(path: str | os.PathLike[str], notes: Sequence[str]) -> str:
    """Why a file cannot be read as a trace; `notes` are its reader's remarks."""
    why = f" ({notes[0]})" if notes else ""
    text = f"{path} is not a trace that coldstep wrote, or was cut before its first block: trace again.{why}"
    return text.rstrip(".")


def check_schema(path: str | os.PathLike[str], about: Args) -> None:
    """Raise TraceError unless the arguments of a trace's run are in a schema that is read here."""
    if (why := layout.unreadable(str(about.get("schema", "")))) is not None:
        raise TraceError(f"{path} {why}")


def _read(path: Path, step: str | None, parts: Sequence[str], *, job: bool = False) -> tuple[Trace, list[Rows]]:
    notes: list[str] = []
    processes: list[Rows] = []
    for part in parts:
        found = _processes(Path(part), notes, len(processes))
        if not found:
            raise TraceError(not_ours(path, notes))
        for place, process in enumerate(found, len(processes)):
            if process.process != place:
                raise TraceError(f"{part} is damaged: it does not show what its process {place} ran")
            check_schema(part, process.args)
            process.run = run_row(process.args)
        if len(found) == 1 and found[0].run.ended is None:
            _say_why_unended(found[0], Path(part))
        processes += found
    traces = [_trace(process, step) for process in processes]
    fill_waiting(processes)
    one_clock(traces, [process.run for process in processes])
    trace = joined(traces)
    trace.run.notes += notes
    runs = [process.run for process in processes]
    whole = job and (os.fspath(path) != parts[0] or runs[0].how == "root")
    trace = as_job(trace, runs, [each for rows in processes for each in started(rows)], whole=whole)
    return trace, processes


def _say_why_unended(process: Rows, path: Path) -> None:
    run = process.run
    if (word := last_word(path)) is not None:
        run.ended, run.error, run.error_location = "terminated", "SIGTERM", place_in(word)
    elif lives(process.args):
        run.ended = "running"


def _processes(path: Path, notes: list[str], first: int) -> list[Rows]:
    """The processes of which the file says what was run, counted from `first`: everything below a root track is one
    process's."""
    processes: list[Rows] = []
    owners: dict[int, Rows] = {}

    def event(row: EventRow) -> None:
        if (owner := owners.get(row.track)) is not None:
            owner.event(row)

    for row in folded(path, notes):
        if isinstance(row, EventRow):
            event(row)
            continue
        if isinstance(row, Repeats):
            owner = owners.get(row.template.events[-1].track)
            if owner is None or not owner.repeats(row):
                for each in row.rows(row.count):
                    event(each)
            continue
        if row.parent is None and layout.is_root(row.name):
            processes.append(Rows(first + len(processes)))
            owners[row.uuid] = processes[-1]
        elif row.parent is not None and (parent := owners.get(row.parent)) is not None:
            owners[row.uuid] = parent
        if (owner := owners.get(row.uuid)) is not None:
            owner.track(row)
    for process in processes:
        process.close(now() if lives(process.args) else 0)
    return [process for process in processes if process.args]


def _trace(rows: Rows, step: str | None) -> Trace:
    """All rows of one process."""
    run = rows.run
    locations = Locations(run.root, run.cells)
    inference = infer(rows, locations, step)
    collectors = list(_collectors(rows))
    stretches = thread_stretches(rows)
    counted = not any(DISPATCHES in row.blind for row in collectors)
    time = timeline(rows, locations, stretches, counted=counted)
    reader = CompileReader(rows, time, locations)
    compiles, details = reader.compiles(stretches)
    # they may fall short, in a cut file
    if any(sum(row.phases.values()) + row.unattributed_ns > max(0, row.wall_ns) for row in alone(time.intervals)):
        rows.notes.append("The times do not add up: the file was changed, or damaged, after it was written.")
    process = _process(rows)
    return Trace(
        run=_run(rows, process),
        processes=[process],
        collectors=collectors,
        intervals=whole([time.intervals]),
        compiles=compiles,
        graph_breaks=reader.graph_breaks(compiles),
        memory=MemoryPeak(peak_rss_bytes=run.peak_rss_bytes),
        origin_ns=rows.start,
        unfinished=time.unfinished,
        details=details,
        libraries=reader.libraries,
        below=reader.below,
        counters={
            (rows.process, name): sorted((ns - rows.start, value) for ns, value in points)
            for name, points in rows.counters.items()
        },
        failures=_failure(rows, locations),
        cuda_graphs=reader.cuda_graphs(),
        device_traces=rows.device_traces,
        inferences=[inference] if inference is not None else [],
        reported=list(reader.findings(compiles)),
        vocabulary=rows.vocabulary,
        code=locations.code,
        blocks=locations.blocks,
        ready=_ready(rows, locations, time),
        unplaced=unplaced(rows, stretches),
        children=children(rows),
        builds=list(builds(rows, time, locations)),
        transfers=transfers(rows, time, locations),
        autotuning=autotuning(rows, time, compiles, locations),
        ready_after={rows.process: after} if (after := run.ready_after) is not None else {},
    )


def _ready(rows: Rows, locations: Locations, time: Timeline) -> list[Ready]:
    """When the program said that all was warmed up; where it was to be after so many steps, and these were inferred as
    the trace was read, then."""
    if rows.ready:
        marks = [
            Ready(rows.process, " ".join(row.name.split()), row.ns - rows.start, _stack(row.args, locations))
            for row in rows.ready
        ]
        return sorted(marks, key=lambda row: row.ns)
    after = rows.run.ready_after
    if after is None or after < 1:
        return []
    steps = (row for row in time.intervals if row.kind == "step" and row.index != time.unfinished)
    reached = islice(steps, after - 1, after)
    return [Ready(rows.process, layout.READY, last.start_ns + last.wall_ns, None) for last in reached]


def _stack(args: Args, locations: Locations) -> list[Location] | None:
    frames = args.get("stack")
    if not isinstance(frames, list):
        return None
    return [place for each in frames if (place := locations.read(each)) is not None]


def _run(rows: Rows, process: Process) -> Run:
    row = rows.run
    return Run(
        command=row.command,
        root=row.root,
        started=row.started,
        wall_ns=process.wall_ns,
        ended=process.ended,
        error=row.error,
        dropped=row.dropped or Dropped(),
        notes=rows.notes,
        labels=row.labels,
    )


def _process(rows: Rows) -> Process:
    row = rows.run
    return Process(
        index=rows.process,
        pid=row.pid,
        host=row.host,
        rank=row.rank,
        start_ns=0,
        wall_ns=rows.stop - rows.start,
        before_trace_ns=row.before_trace_ns,
        ended=cast(Ending, row.ended or "killed"),
        versions=_attached_versions(rows) | row.versions,
        own_before_trace_ns=min(row.own_before_trace_ns or 0, row.before_trace_ns),
        name=row.process_name,
        command=row.command,
    )


def _attached_versions(rows: Rows) -> dict[str, str]:
    """The versions of the frameworks whose collectors attached: the other packages are known only at the end."""
    stacks = {stack.collector: stack.packages[0] for stack in rows.vocabulary.stacks.values()}
    versions = ((stacks.get(name), args.get("version")) for name, (_, args) in rows.states.items())
    return {package: str(version) for package, version in versions if package is not None and version is not None}


def _failure(rows: Rows, locations: Locations) -> dict[int, Failure]:
    run = rows.run
    if not run.error:
        return {}
    place = locations.read(run.error_location)
    return {rows.process: Failure(run.error, place, bool(run.error_in_step))}


def _collectors(rows: Rows) -> Iterator[CollectorRow]:
    announced = rows.run.collectors
    for name in [*announced, *(n for n in rows.states if n not in announced)]:
        ns, args = rows.states.get(name, (None, {}))
        state = str(args.get("state", "absent"))
        missing = [str(text) for text in args.get("missing") or []]
        # a file from before this was said: the words alone do not tell what they hide
        blind = known_claims(args["blind"]) if "blind" in args else left_open(str(name), state, missing)
        yield CollectorRow(
            process=rows.process,
            name=str(name),
            state=cast(CollectorState, state),
            since_ns=ns - rows.start if ns is not None and state not in ("absent", "failed") else None,
            version=text(args.get("version")),
            missing=missing,
            blind=blind,
        )
