"""Where a run's time went until it settled: its intervals summed into the few stretches that a reader can hold in mind.

Every stretch keeps the ledger's promise: its rows add up to its wall time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from coldstep.model import UNATTRIBUTED, Interval, Trace
from coldstep_viewers.words import count, numbers, short

IMPORTS, EAGER = "imports", "eager programs"


@dataclass(slots=True)
class Stretch:
    """Intervals that follow each other, as one: `shares` maps phases, and "unattributed", to nanoseconds."""

    title: str
    intervals: list[int]
    wall_ns: int
    shares: dict[str, int]
    imports: dict[str, int] = field(default_factory=dict)
    """Of `shares["imports"]`: how much each package took."""
    eager_count: int = 0
    """How many small programs of eager operations `shares["eager programs"]` stands for."""
    initial: bool = False
    """Whether this is the time before the first step, or a first step."""

    def largest_first(self) -> list[tuple[str, int]]:
        """The phases from the largest down; what is unattributed comes last, whatever its size."""
        return sorted(self.shares.items(), key=lambda row: (row[0] == UNATTRIBUTED, -row[1]))


def until_settled(trace: Trace, process: int) -> tuple[bool, list[Stretch]]:
    """The stretches from `trace()`'s entry until every kind of step had settled, and whether all of them did.

    Where one of them did not settle, the stretches go on to the end of the run.
    """
    intervals = [row for row in trace.intervals if row.process == process]
    verdicts = [row for row in trace.settling if row.process == process and row.by == "step"]
    names = {row.name for row in verdicts}
    begun = trace.unfinished is None or trace.intervals[trace.unfinished].name in names
    settled = bool(verdicts) and begun and all(row.settled_at_step is not None for row in verdicts)
    if settled:
        ends = {(row.name, row.settled_at_step) for row in verdicts}
        last = max(row.index for row in intervals if row.kind == "step" and (row.name, row.step) in ends)
        intervals = [row for row in intervals if row.index < last]
    groups: list[list[Interval]] = []
    for row in intervals:
        alone = row.kind == "before" or row.step == 0
        if alone or not groups or groups[-1][0].kind == "before" or groups[-1][0].step == 0:
            groups.append([row])
        else:
            groups[-1].append(row)
    many = len({row.name for row in intervals if row.kind == "step"} - {"step"}) > 0
    return settled, [_stretch(trace, group, many) for group in groups]


def total(intervals: Iterable[Interval]) -> dict[str, int]:
    """The phases of `intervals`, and what is unattributed, summed; phases of no length are left out."""
    shares: Counter[str] = Counter()
    for row in intervals:
        shares.update(row.phases)
        shares[UNATTRIBUTED] += row.unattributed_ns
    return {phase: ns for phase, ns in shares.items() if ns}


def _stretch(trace: Trace, group: list[Interval], many: bool) -> Stretch:
    shares = Counter(total(group))
    imports = {name: shares.pop(name) for name in list(shares) if name.startswith("import.")}
    if imports:
        shares[IMPORTS] = sum(imports.values())
    indices = {row.index for row in group}
    eager = [
        row
        for row in trace.compiles
        if row.origin == "eager"
        and row.outcome != "traced_only"
        and row.parent is None
        and row.process == group[0].process
    ]
    segments = [segment for row in eager for segment in row.segments if segment.interval in indices]
    programs = sum(any(segment.interval in indices for segment in row.segments) for row in eager)
    for segment in segments:
        for phase, ns in segment.phases.items():
            # a compile's segment may reach over its interval's end, or lie on another thread: never take out more
            # than there is, so that the rows still add up
            moved = min(ns, shares[phase])
            shares[phase] -= moved
            shares[EAGER] += moved
    return Stretch(
        title=_title(group, many),
        intervals=sorted(indices),
        wall_ns=sum(row.wall_ns for row in group),
        shares={phase: ns for phase, ns in shares.items() if ns},
        imports=imports,
        eager_count=programs,
        initial=group[0].kind == "before" or group[0].step == 0,
    )


def _title(group: list[Interval], many: bool) -> str:
    if group[0].kind == "before":
        return "before the first step"
    names: dict[str, list[int]] = {}
    for row in group:
        if row.kind == "step":
            names.setdefault(row.name or "step", []).append(row.step or 0)
    if not names:
        return "after the last step" if group[-1].kind == "after" else "between steps"
    said = [
        f"{f'{short(name)} ' if many else ''}{'step' if len(steps) == 1 else 'steps'} {numbers(steps)}"
        for name, steps in names.items()
    ]
    if len(said) > 3:
        said = [*said[:2], count(len(said) - 2, "more kind of step", "more kinds of steps")]
    if len(group) == 1:
        return said[0]
    return f"{', '.join(said)} and between"
