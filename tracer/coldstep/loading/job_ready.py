"""When a job of several processes was ready, and what each of them did until then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from coldstep.job.waits import Member
from coldstep.loading.slices import Rows
from coldstep.loading.waits import member, waiting_until
from coldstep.model import JobReady, Meanwhile, ReadyBy, Trace
from coldstep.pftrace.layout import RESPONSE
from coldstep.rows.intervals import kinds
from coldstep.rows.processes import nearest_above
from coldstep.vocabulary import IMPORTS


def job_ready(trace: Trace, processes: Sequence[Rows]) -> JobReady | None:
    """The row of a job of which several processes have a trace, on one machine; `trace` is analysed."""
    if trace.run.job is None or len({rows.run.boot for rows in processes}) != 1 or len(processes) < 2:
        return None
    by: ReadyBy = "ready"
    if (last := max(_called(trace), default=None)) is None:
        by, last = "settled", max(_settled(trace), default=None)
    if last is None:
        by, last = "response", min(_responded(trace, processes), default=None)
    if last is None:
        return None
    ns, process, name = last
    members = [member(rows) for rows in processes]
    start, moment = min(each.start for each in members), trace.origin_ns + ns
    return JobReady(
        by=by,
        name=name,
        process=process,
        ns=moment - start,
        processes=[
            _meanwhile(start, moment, rows, own, processes, members)
            for rows, own in zip(processes, members, strict=True)
            if own.start < moment
        ],
    )


def _called(trace: Trace) -> Iterator[tuple[int, int, str]]:
    """When each process first called `ready()`, but for those below one that called it, too: a worker that is started
    anew makes no job ready again."""
    called = {row.process for row in trace.ready}
    seen: set[int] = set()
    for row in sorted(trace.ready, key=lambda row: row.ns):
        if row.process not in seen and nearest_above(trace, trace.processes[row.process], called) is None:
            seen.add(row.process)
            yield row.ns, row.process, row.name


def _settled(trace: Trace) -> Iterator[tuple[int, int, str]]:
    """When each kind of step had its first step in which nothing compiled any more; none where one has not settled."""
    if any(row.verdict in ("not_settled", "not_observable") for row in trace.settling):
        return
    steps = kinds(trace.intervals, trace.unfinished)
    for row in trace.settling:
        own = steps.get((row.process, row.name))
        if row.verdict == "settled" and row.settled_at_step is not None and own is not None:
            begins = [step.start_ns for step in own if step.step == row.settled_at_step]
            yield from ((ns, row.process, row.name) for ns in begins[:1])


def _responded(trace: Trace, processes: Sequence[Rows]) -> Iterator[tuple[int, int, str]]:
    """When a server of each process sent its first response."""
    for rows in processes:
        for piece in rows.slices:
            if piece.name == RESPONSE and not piece.category:
                yield piece.start - trace.origin_ns, rows.process, RESPONSE
                break


def _meanwhile(
    start: int, moment: int, rows: Rows, own: Member, processes: Sequence[Rows], members: Sequence[Member]
) -> Meanwhile:
    phases: Counter[str] = Counter()
    for begin, end, phase in own.phases:
        if begin < moment:
            phases[IMPORTS if phase.startswith("import.") else phase] += min(end, moment) - begin
    return Meanwhile(
        process=own.index,
        start_ns=own.start - start,
        ns=min(own.end, moment) - own.start,
        before_trace_ns=max(0, min(rows.start, moment) - own.start),
        phases=dict(phases.most_common()),
        waiting=waiting_until(moment, rows, own, processes, members),
    )
