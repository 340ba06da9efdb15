"""What a trace's silence is worth: whether nothing of a kind was there, or only nothing of it was seen, and why."""

from __future__ import annotations

from coldstep.blind_spots import told_by
from coldstep.model import Trace

_STATES = {"failed": "failed", "late": "could not be attached wholly", "partial": "could not be attached wholly"}


def unknown(trace: Trace, claim: str, process: int | None = None) -> str | None:
    """Why nothing may be concluded from the trace (or one process of it) not showing what `claim` names, one of
    `blind_spots.CLAIMS`; None where what it does not show was not there."""
    why = [
        f"the collector {row.name} {_STATES[row.state]}"
        for row in trace.collectors
        if claim in row.blind and process in (None, row.process)
    ]
    why += [
        f"no collector watched {framework}"
        for index, framework, collector in unwatched(trace)
        if claim in told_by(collector) and process in (None, index)
    ]
    if trace.run.dropped.ledger:
        why.append("events were lost to a write error")
    return ", ".join(dict.fromkeys(why)) or None


def unwatched(trace: Trace) -> list[tuple[int, str, str]]:
    """The frameworks that a process had imported without the collector that sees what they compile: process, framework,
    collector."""
    watched = {(row.process, row.name) for row in trace.collectors if row.state != "absent"}
    return [
        (process.index, stack.packages[0], stack.collector)
        for process in trace.processes
        for stack in trace.vocabulary.stacks.values()
        if stack.packages[0] in process.versions and (process.index, stack.collector) not in watched
    ]
