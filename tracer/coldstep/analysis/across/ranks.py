"""What the ranks of a job did to each other: who compiled longer, and who waited for it."""

from __future__ import annotations

from coldstep._util.figures import duration
from coldstep._util.median import median
from coldstep.analysis.make_finding import finding, in_step
from coldstep.model import Finding, Interval, Trace
from coldstep.pftrace.layout import COLLECTIVE
from coldstep.rows.intervals import Part, kinds, parts, phases_of
from coldstep.rows.processes import name

_MIN_LAG_NS = 50_000_000
_MIN_LAG_SHARE = 0.1  # of the step: less is no straggling


def compile_ns(trace: Trace, part: Part) -> int:
    """How much of an interval its process compiled."""
    phases = phases_of([part], between=True)
    return sum(ns for phase, ns in phases.items() if trace.vocabulary.compiles(phase))


def compile_rank_ns(trace: Trace) -> dict[int, int]:
    """How long each process compiled; their sum is what the job paid in rank-seconds."""
    by_process = dict.fromkeys(range(len(trace.processes)), 0)
    for part in parts(trace.intervals):
        by_process[part.process] += compile_ns(trace, part)
    return by_process


def stragglers(trace: Trace) -> list[Finding]:
    """One finding for each step that a single rank held up by compiling."""
    steps: dict[tuple[str, int], list[Interval]] = {}
    several = kinds(trace.intervals, trace.unfinished) if len(trace.processes) > 1 else {}
    for kind, mine in several.items():
        for row in mine.alone():
            if (row.name, row.step) not in steps and compile_ns(trace, row):
                found = (others.numbered(row.step or 0) for (_, called), others in several.items() if called == kind[1])
                steps[row.name or "", row.step or 0] = [each for each in found if each is not None]
    return [late for rows in steps.values() if len(rows) > 1 and (late := _straggler(trace, rows)) is not None]


def _straggler(trace: Trace, rows: list[Interval]) -> Finding | None:
    spent = {row.index: compile_ns(trace, row) for row in rows}
    slowest = max(rows, key=lambda row: spent[row.index])
    others = [row for row in rows if row is not slowest]
    longer = spent[slowest.index] - round(median(spent[row.index] for row in others))
    if longer < max(_MIN_LAG_NS, _MIN_LAG_SHARE * slowest.wall_ns):
        return None
    # what the others did in the step beside compiling, beyond what the straggler did, was waiting
    rest = slowest.wall_ns - spent[slowest.index]
    waits = [max(0, row.wall_ns - spent[row.index] - rest) for row in others]
    waited = [ns for ns in waits if 2 * ns >= longer]
    who = name(trace, slowest.process)
    text = f"{who} compiled {duration(longer)} longer{in_step(slowest)}"
    if waited:
        them = name(trace, others[0].process) if len(others) == 1 else "the others"
        text += f"; {them} waited for it, {duration(median(waited))}{_where(others, longer)}"
    evidence = [
        f"{name(trace, row.process)}: {duration(spent[row.index])} of compiling in a step of {duration(row.wall_ns)}"
        for row in rows
    ]
    return finding(
        "straggler",
        "warning",
        text,
        at=slowest,
        cost_ns=sum(waits) or longer,
        evidence=evidence,
        advice="Give every rank the same shapes and the same disk cache, or warm up before the first collective.",
        refs=list(slowest.compiles),
    )


def _where(others: list[Interval], longer: int) -> str:
    """The collective in which most of that wait was, where a profiler saw it."""
    seen: dict[str, int] = {}
    for row in others:
        for what, ns in row.inside.items():
            if what.startswith(COLLECTIVE) and 2 * ns >= longer:
                seen[what] = seen.get(what, 0) + ns
    return f", in {max(seen, key=lambda what: seen[what]).removeprefix(COLLECTIVE)}" if seen else ""
