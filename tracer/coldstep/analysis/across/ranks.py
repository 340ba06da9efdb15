"""What the ranks of a job did to each other: who compiled or slept longer, and who waited for it."""

from __future__ import annotations

from collections import Counter

from coldstep._util.figures import duration
from coldstep._util.gathered import summed
from coldstep._util.median import median
from coldstep._util.slotted import slotted
from coldstep.analysis.make_finding import About, finding, in_step
from coldstep.model import Finding, Interval, Trace
from coldstep.pftrace.layout import COLLECTIVE
from coldstep.rows.intervals import Part, kinds, parts, phases_of
from coldstep.rows.processes import name

_MIN_LAG_NS = 50_000_000
_MIN_LAG_SHARE = 0.1  # of the step: less is no straggling
_COMPILES = "Give every rank the same shapes and the same disk cache, or warm up before the first collective."


def compile_ns(trace: Trace, part: Part) -> int:
    """How much of an interval its process compiled."""
    phases = phases_of([part], between=True)
    return sum(ns for phase, ns in phases.items() if trace.vocabulary.is_compiling(phase))


def compile_rank_ns(trace: Trace) -> dict[int, int]:
    """How long each process compiled; their sum is what the job paid in rank-seconds."""
    by_process = dict.fromkeys(range(len(trace.processes)), 0)
    for part in parts(trace.intervals):
        by_process[part.process] += compile_ns(trace, part)
    return by_process


@slotted
class _Turn:
    """A step of one rank, with the gap before it."""

    step: Interval
    wall_ns: int
    compiled_ns: int
    slept_ns: int
    """As far as its thread was seen asleep."""
    gap_ns: int
    """How much of both was before the step."""
    lines: Counter[str]
    """Where the thread was seen, in time without a phase."""

    @property
    def held_ns(self) -> int:
        """For how long it did what the others may have waited for."""
        return self.compiled_ns + self.slept_ns


def stragglers(trace: Trace) -> list[Finding]:
    """One finding for each step that a single rank held up: it compiled, or slept, in the step or before it."""
    steps: dict[tuple[str, int], list[Interval]] = {}
    several = kinds(trace.intervals, trace.unfinished) if len(trace.processes) > 1 else {}
    for kind, mine in several.items():
        for row in mine.alone():
            if (row.name, row.step) not in steps and _turn(trace, row).held_ns:
                found = (others.numbered(row.step or 0) for (_, called), others in several.items() if called == kind[1])
                steps[row.name or "", row.step or 0] = [each for each in found if each is not None]
    turns = ([_turn(trace, row) for row in rows] for rows in steps.values() if len(rows) > 1)
    return [late for rows in turns if (late := _straggler(trace, rows)) is not None]


def _turn(trace: Trace, step: Interval) -> _Turn:
    gap = trace.intervals[step.index - 1] if step.step else None  # what lies before the first step is no gap
    pair = [step] if gap is None or gap.process != step.process or gap.kind != "between" else [gap, step]
    compiled = [compile_ns(trace, row) for row in pair]
    slept = [sum(wait.ns for wait in row.waiting if wait.how == "sleep") for row in pair]
    lines = sum((Counter(row.sampled) for row in pair), Counter[str]())
    wall_ns = sum(row.wall_ns for row in pair)
    return _Turn(step, wall_ns, sum(compiled), sum(slept), sum(compiled[:-1]) + sum(slept[:-1]), lines)


def _straggler(trace: Trace, rows: list[_Turn]) -> Finding | None:
    slowest = max(rows, key=lambda row: row.held_ns)
    others = [row for row in rows if row is not slowest]
    compiled = slowest.compiled_ns - round(median(row.compiled_ns for row in others))
    slept = slowest.slept_ns - round(median(row.slept_ns for row in others))
    longer = max(compiled, slept)
    if longer < max(_MIN_LAG_NS, _MIN_LAG_SHARE * slowest.wall_ns):
        return None
    # what the others did in the step beside compiling, beyond what the straggler did, was waiting
    rest = slowest.wall_ns - slowest.held_ns
    waits = [max(0, row.wall_ns - row.held_ns - rest) for row in others]
    waited = [ns for ns in waits if 2 * ns >= longer]
    who = name(trace, slowest.step.process)
    at = in_step(slowest.step)
    at = at.replace(" in ", " before ", 1) if 2 * slowest.gap_ns > slowest.held_ns else at
    text = f"{who} {'slept' if slept > compiled else 'compiled'} {duration(longer)} longer{at}"
    if waited:
        them = name(trace, others[0].step.process) if len(others) == 1 else "the others"
        text += f"; {them} waited for it, {duration(median(waited))}{_where(others, longer)}"
    evidence = [
        f"{name(trace, row.step.process)}: {duration(row.compiled_ns)} of compiling"
        f"{f' and {duration(row.slept_ns)} asleep' if slept > compiled else ''} in a step of {duration(row.wall_ns)}"
        for row in rows
    ]
    advice, refs = _asleep(slowest) if slept > compiled else _COMPILES, list(slowest.step.compiles)
    about = About(cost_ns=sum(waits) or longer, evidence=evidence, advice=advice, refs=refs)
    return finding("straggler", text, at=slowest.step, **about)


def _asleep(row: _Turn) -> str:
    """Where the thread that slept was seen."""
    at = f" at {max(row.lines, key=lambda line: row.lines[line])}" if row.lines else ""
    return f"Look at what it slept for{at}: every rank that it works with waits there, too."


def _where(others: list[_Turn], longer: int) -> str:
    """The collective in which most of that wait was, where a profiler saw it."""
    within = (pair for row in others for pair in row.step.inside.items())
    seen = summed((what, ns) for what, ns in within if what.startswith(COLLECTIVE) and 2 * ns >= longer)
    return f", in {max(seen, key=lambda what: seen[what]).removeprefix(COLLECTIVE)}" if seen else ""
