"""Puts the processes of a job into their tree: who started whom, how each ended, which were not traced."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from coldstep._util.figures import count
from coldstep.events import Args
from coldstep.model import Child, Location, Process, Trace
from coldstep.pftrace.layout import NOT_TRACED
from coldstep.run_row import RunRow


def as_job(
    trace: Trace, rows: Sequence[RunRow], started: Sequence[tuple[Args, Location | None]], *, whole: bool
) -> Trace:
    """The trace with its processes tied to each other, by the row of each; `started` is all that they saw start,
    and at which line. Whether it is the `whole` job, or a part of it by itself."""
    if rows[0].job is None:
        return trace
    trace.run.job = rows[0].job
    traced = {row.pid for row in trace.processes}
    trace.unplaced = [row for row in trace.unplaced if row.below is None or (whole and row.below not in traced)]
    if rows[0].how == "root":  # the job ended as it did, and what it was called the job is
        trace.run.ended, trace.run.error = trace.processes[0].ended, rows[0].error
        trace.run.labels = rows[0].labels
    for process, row in zip(trace.processes, rows, strict=True):
        process.parent, process.how = _parent(rows, process.index), row.how
        if (earlier := _earlier_life(rows, process.index)) is not None:
            process.parent, process.how = earlier, "exec"
            trace.processes[earlier].ended = "ok"  # with that call
        _tell_end(process, started)
    notes = [note for note in trace.run.notes if NOT_TRACED not in note]
    if left := len({(row.process, row.pid) for row in _untraced(trace)}):
        ran = "ran below this job and is" if left == 1 else "ran below this job and are"
        notes.append(f"{count(left, NOT_TRACED, NOT_TRACED + 'es')} {ran} not traced: coldstep was not there.")
    if silent := len(_silent(trace, started)):
        more = count(silent, "more Python", "more Pythons")
        notes.append(f"{more} of this job wrote no trace: it takes a compile or a mark.")
    trace.run.notes = notes
    return trace


def one_clock(traces: Sequence[Trace], rows: Sequence[RunRow]) -> None:
    """Lay the processes of other machines on the first one's clock, by the time of day at which each began."""
    first, since = rows[0], traces[0].origin_ns
    for trace, row in zip(traces, rows, strict=True):
        if row.job is not None and row.boot != first.boot:
            later = datetime.fromisoformat(row.started) - datetime.fromisoformat(first.started)
            trace.origin_ns = since + later // timedelta(microseconds=1) * 1000
            trace.run.notes.append("Another machine's clock, laid on the first one's by the time of day.")


def _untraced(trace: Trace) -> list[Child]:
    traced = {row.pid for row in trace.processes}
    return [row for row in trace.children if not row.lost and row.pid not in traced]


def _silent(trace: Trace, started: Sequence[tuple[Args, Location | None]]) -> set[int]:
    """The processes of the job that had nothing to say, as those above saw them."""
    known = {row.pid for row in trace.processes} | {row.pid for row in trace.children}
    return {args["pid"] for args, _ in started if args.get("followed") and isinstance(args.get("pid"), int)} - known


def _parent(rows: Sequence[RunRow], index: int) -> int | None:
    """The nearest of those above a process that has a trace here; of several programs of one process the latest."""
    for pid, born in rows[index].ancestors:
        lives = _lives(rows, pid, born, index)
        if lives := [at for at in lives if rows[at].started <= rows[index].started] or lives[:1]:
            return max(lives, key=lambda at: rows[at].started)
    return None


def _earlier_life(rows: Sequence[RunRow], index: int) -> int | None:
    """The program that a process ran before this one."""
    own = rows[index]
    lives = _lives(rows, own.pid, own.born, index) if own.born is not None else []
    before = [at for at in lives if rows[at].started < own.started]
    return max(before, key=lambda at: rows[at].started, default=None)


def _lives(rows: Sequence[RunRow], pid: int, born: int | None, but: int) -> list[int]:
    """The programs that a process ran, but for one."""
    return [at for at, row in enumerate(rows) if at != but and (row.pid, row.born) == (pid, born)]


def _tell_end(process: Process, seen: Sequence[tuple[Args, Location | None]]) -> None:
    """What the process above knows better: where it was started, and the exit code that it could not know itself."""
    for args, location in seen:
        if args.get("pid") == process.pid:
            process.started_by = location or process.started_by
            if process.ended == "ok" and args.get("exit_code") not in (None, 0):
                process.ended = "exit"
