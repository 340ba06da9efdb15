"""What a trace's silence is worth: whether nothing of a kind was there, or only nothing of it was seen, and why.

Whoever reports that nothing compiled, that something settled, or that a budget is kept, asks here first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

from coldstep._util.figures import count, duration, listed
from coldstep._util.gathered import gathered
from coldstep.blind_spots import BREAKS, COMPILES, RECOMPILES, RECORDINGS, told_by
from coldstep.model import Child, Trace, Unplaced
from coldstep.pftrace.layout import NOT_TRACED
from coldstep.rows.spans import covered

Row = TypeVar("Row", Child, Unplaced)
_STATES = {"failed": "failed", "late": "could not be attached wholly", "partial": "could not be attached wholly"}
_LEAST_NS = 100_000_000  # of compiling by a route that was not seen: less is no compile of a program's
HIDDEN = (COMPILES, RECOMPILES, RECORDINGS, BREAKS)
"""Of `blind_spots.CLAIMS`, what compiling by such a route leaves open."""
_MOST_NAMED = 4
_EARLIER = "what was compiled there"  # in an earlier coldstep's note of processes below, whatever they were


def unknown(trace: Trace, claim: str, process: int | None = None, since_ns: int | None = None) -> str | None:
    """Why nothing may be concluded from the trace (or one process of it, or what came of it after a time) not showing
    what `claim` names, one of `blind_spots.CLAIMS`; None where what it does not show was not there."""
    blind = (row for row in trace.collectors if claim in row.blind and process in (None, row.process))
    why = [f"the collector {row.name} {_STATES[row.state]}" for row in blind]
    lacking = (row for row in unwatched(trace) if process in (None, row[0]))
    why += [f"no collector watched {framework}" for _, framework, name in lacking if claim in told_by(name)]
    if claim in HIDDEN and (route := unseen_route(trace, process, since_ns)) is not None:
        why.append(route)
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


def unseen_route(trace: Trace, process: int | None = None, since_ns: int | None = None) -> str | None:
    """How much compiling has no compile's row, and by what it was done; None where that is not worth a word."""
    rows = _since(trace.unplaced, process, since_ns)
    phases = [row for row in rows if row.what in trace.vocabulary.phases]
    programs = [row for row in rows if row.what not in trace.vocabulary.phases]
    kinds = [row for kind in (phases, programs) if sum(each.work_ns for each in kind) >= _LEAST_NS for row in kind]
    if not kinds:
        return None
    most = sorted(kinds, key=lambda row: -row.work_ns)
    what = listed((trace.vocabulary.phase(row.what) for row in most), _MOST_NAMED)
    spans = gathered((row.process, (row.start_ns, row.start_ns + row.wall_ns)) for row in kinds)
    took = sum(map(covered, spans.values()))
    return f"{duration(took)} of compiling by a route that was not seen: {what}"


def untraced(trace: Trace, process: int | None = None, since_ns: int | None = None) -> list[Child]:
    """The processes below that may have compiled, and of which there is no trace here, or no whole one."""
    traced = {row.pid for row in trace.processes}
    return [row for row in _since(trace.children, process, since_ns) if row.lost or row.pid not in traced]


def _since(rows: Sequence[Row], process: int | None, since_ns: int | None) -> list[Row]:
    """Those of one process, or of all, that went on after a time."""
    own = (row for row in rows if process in (None, row.process))
    return [row for row in own if since_ns is None or row.start_ns + row.wall_ns > since_ns]


def untraced_before(trace: Trace) -> list[str]:
    """The same of a trace of an earlier coldstep, which did not record what the processes below had imported."""
    return [note.partition(":")[0] for note in trace.run.notes if NOT_TRACED in note and _EARLIER in note]


def untraced_words(rows: Sequence[Child]) -> str | None:
    """The same in words: "5 child processes imported torch and were not traced"; None of none."""
    parts = []
    if lost := sum(row.lost for row in rows):
        parts.append(f"{count(lost, 'child process', 'child processes')} could not write all that happened there")
    for framework, number in Counter(row.imported for row in rows if not row.lost).items():
        processes = count(number, "child process", "child processes")
        if framework:
            parts.append(f"{processes} imported {framework} and {'was' if number == 1 else 'were'} not traced")
        else:
            it = "it" if number == 1 else "they"
            parts.append(f"{processes} of Python's ended before coldstep could see what {it} imported")
    return ", ".join(parts) or None


def child_words(row: Child) -> str:
    """One of them: what ran, which process, what it had imported, what it took."""
    imported = f"imported {row.imported}" if row.imported else "what it imported is not known"
    if row.lost:
        imported = "could not write all that happened there"
    took = f"{duration(row.cpu_ns)} of processor time in " if row.cpu_ns is not None else ""
    number = f"process {row.pid}, " if row.pid else ""
    return f"{row.command or row.name} ({number}{imported}, {took}{duration(row.wall_ns)})"
