"""One program at several values of a label, a trace each: a curve of figures per stack, where it turns, and why."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import reduce
from statistics import fmean, median
from typing import Any

from coldstep._util.figures import duration, listed, size
from coldstep._util.gathered import gathered, summed
from coldstep._util.slotted import field, slotted
from coldstep.analysis.across.frameworks import (
    SCHEMA,
    NotComparable,
    StackRow,
    common_name,
    compiled_for,
    excess,
    figures_of,
    slowest_process,
)
from coldstep.analysis.make_finding import what_changed
from coldstep.model import UNATTRIBUTED, Trace
from coldstep.vocabulary import OURS, Vocabulary

_DEPARTS = 1.25  # times what is expected: a difference of a fifth is none, between two runs of one program
_DEPARTED = 2.0  # at the greatest value
_LEAST_VALUES = 3  # that a curve can turn at


@slotted
class Point:
    """The figures of one trace, at its value of the label."""

    value: str
    """As the label has it."""
    row: StackRow
    """First and steady step, memory, compiles, each with its reason."""
    cause: str | None
    """In one of the trace's own words, what its steps before the steady ones paid most for: the cause of the
    recompiles that took longest together ("shape"); where nothing compiled again, the kind of the most frequent graph
    break ("data_dependent"); where none broke, the phase that took longest ("xla.compile"). None where no step was
    finished, or all of its time is unattributed."""
    why: str
    """The same for people."""

    @property
    def until_steady_ns(self) -> int | None:
        """The steps before the steady ones, the first two at least."""
        return sum(self.row.walls_ns) or None

    def to_json(self) -> dict[str, Any]:
        """The point as `coldstep compare --by LABEL --format json` prints it."""
        return {
            "value": self.value,
            "stack": self.row.stack,
            "first_ns": self.row.first_ns,
            "steady_ns": self.row.steady_ns,
            "peak_bytes": self.row.memory_bytes,
            "compiles": self.row.compiles,
            "cause": self.cause,
        }


@slotted
class Sweep:
    """The points of one stack, by value: ascending where all values are numbers, else as the traces were given."""

    label: str
    words: str
    """The stack's name for people."""
    points: list[Point]
    turns_at: str | None
    """The value at which the curve turns (`turn`), of the first figure that turns: the first step, all steps before the
    steady ones, a steady step, peak memory. None where none does."""
    why: str
    """Which figure turns, how far, and what there is more of than at the value before; or why none does."""


@slotted
class Sweeps:
    """A sweep for each stack, of the steps of one name."""

    name: str
    """The steps' name."""
    sweeps: list[Sweep] = field(default_factory=list)
    vocabulary: Vocabulary = OURS
    """The words of all traces."""

    def to_json(self) -> dict[str, Any]:
        """The document of schema coldstep-compare/1, with sweeps in place of stacks."""
        shown = [
            {"label": each.label, "points": [point.to_json() for point in each.points], "turns_at": each.turns_at}
            for each in self.sweeps
        ]
        return {"schema": SCHEMA, "name": self.name, "sweeps": shown}


STEADY = "a steady step"
Figure = Callable[[Point], int | None]
CURVES: tuple[tuple[str, Figure, Callable[[float], str]], ...] = (
    ("the first step", lambda point: point.row.first_ns, duration),
    ("the time before the steady steps", lambda point: point.until_steady_ns, duration),
    (STEADY, lambda point: point.row.steady_ns, duration),
    ("peak memory", lambda point: point.row.memory_bytes, size),
)
"""The figures that are looked at for a turn, in this order."""


def sweep(label: str, traces: Sequence[tuple[str, Trace]]) -> Sweeps:
    """The sweeps of traces that all have the label, each given with its path. Raises NotComparable."""
    if bare := [path for path, trace in traces if label not in trace.run.labels]:
        known = sorted({name for _, trace in traces for name in trace.run.labels})
        has = f"; the labels there are: {listed(known, 6)}" if known else ""
        raise NotComparable(
            f"{listed(bare, 3)} {'has' if len(bare) == 1 else 'have'} no label {label}{has}; "
            f"coldstep run --label {label}=VALUE sets it"
        )
    name, _ = common_name(traces)
    points = (_point(path, trace, name, trace.run.labels[label]) for path, trace in traces)
    by_stack = gathered((point.row.stack, point) for point in points)
    vocabulary = reduce(Vocabulary.joined, (trace.vocabulary for _, trace in traces), OURS)
    return Sweeps(name, [_sweep(label, points, vocabulary) for points in by_stack.values()], vocabulary)


def turn(points: Sequence[tuple[float, float]]) -> int | None:
    """The index of the point at which a curve turns upwards, given as (value, figure), both above 0, by value; or None.

    It parts the points into two courses, each straight on logarithmic scales (least squares; the first never falls):
    of all partings at which the figures depart from the first course, that which leaves the least residue; the turn is
    the second course's first point. They depart where each figure from there on is a quarter above what the first
    course leads to expect, and the last twice that. A course takes two points, the second may be one: below three
    points nothing turns, and what grows evenly, however steeply, does not turn either.
    """
    logs = _logarithms(points)
    partings = []
    for at in range(2, len(logs)):
        level, slope = _line(logs[:at], least=0.0)
        above = [y - level - slope * x for x, y in logs[at:]]
        if min(above) >= math.log(_DEPARTS) and above[-1] >= math.log(_DEPARTED):
            after = _line(logs[at:])
            partings.append((_residue(logs[:at], level, slope) + _residue(logs[at:], *after), at))
    return min(partings)[1] if partings else None


def _line(points: Sequence[tuple[float, float]], least: float = -math.inf) -> tuple[float, float]:
    """The level and the slope, `least` or more, of the straight line nearest to the points."""
    x_mean, y_mean = fmean(x for x, _ in points), fmean(y for _, y in points)
    width = sum((x - x_mean) ** 2 for x, _ in points)
    slope = max(least, sum((x - x_mean) * (y - y_mean) for x, y in points) / width if width else 0.0)
    return y_mean - slope * x_mean, slope


def _residue(points: Sequence[tuple[float, float]], level: float, slope: float) -> float:
    return sum((y - level - slope * x) ** 2 for x, y in points)


def _sweep(label: str, points: list[Point], vocabulary: Vocabulary) -> Sweep:
    made = Sweep(label, points[0].row.words, points, None, "the values are no numbers, so they make no curve")
    values = [value for point in points if (value := _number(point.value)) is not None]
    if len(values) < len(points):
        return made
    points.sort(key=lambda point: float(point.value))
    made.why = "every figure keeps its course" if len(set(values)) >= _LEAST_VALUES else "a curve takes three values"
    for title, figure, shown in CURVES:
        curve = _curve(points, figure)
        if (at := turn(curve)) is not None:
            before, after = (next(p for p in points if float(p.value) == x) for x, _ in curve[at - 1 : at + 1])
            level, slope = _line(_logarithms(curve[:at]), least=0.0)
            expected = math.exp(level + slope * math.log(curve[at][0]))
            text = f"{title} is {shown(curve[at][1])}, where the values before lead to expect {shown(expected)}"
            grown = _grown(before, after, vocabulary, of_steady=title == STEADY)
            made.turns_at, made.why = after.value, f"{text}; {grown}"
            break
    return made


def _curve(points: Sequence[Point], figure: Figure) -> list[tuple[float, float]]:
    """The figure by value, of several traces at one value their median; what cannot be drawn on logarithmic scales, and
    what is not known, is left out."""
    numbers = ((float(point.value), figure(point)) for point in points)
    by_value = gathered((value, number) for value, number in numbers if number and value > 0)
    return [(value, median(figures)) for value, figures in by_value.items()]


def _logarithms(curve: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    return [(math.log(x), math.log(y)) for x, y in curve]


def _grown(before: Point, after: Point, vocabulary: Vocabulary, *, of_steady: bool) -> str:
    """What there is more of than at the value before."""
    phases = (after.row.steady_phases, before.row.steady_phases) if of_steady else (after.row.phases, before.row.phases)
    more = excess(*phases, vocabulary)
    parts = [f"{listed(more)} more than at {before.value}"] if more else []
    if before.row.compiles != after.row.compiles:
        parts.append(f"compiles {before.row.compiles} → {after.row.compiles}")
    return "; ".join([*parts, after.why])


def _number(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _point(path: str, trace: Trace, name: str, value: str) -> Point:
    row = figures_of(path, trace, name)
    return Point(value, row, *_cause(trace, name, row))


def _cause(trace: Trace, name: str, row: StackRow) -> tuple[str | None, str]:
    """As `Point.cause` has it, in the trace's word and in words for people."""
    process, steps = slowest_process(trace, name)
    own = {compile_.id for compile_ in compiled_for(trace, process, name)}
    again = [each for each in trace.recompiles if each.compile in own]
    if again:
        spent = summed((each.cause, each.cost_ns) for each in again)
        cause = spent.most_common(1)[0][0]
        dearest = max((each for each in again if each.cause == cause), key=lambda each: each.cost_ns)
        change = f": {what_changed(dearest)}" if dearest.argument else ""
        return cause, f"{cause}{change}"
    in_steps = {step.index for step in steps}
    broken = [each for each in trace.graph_breaks if each.process == process and each.interval in in_steps]
    if broken:
        most = max(broken, key=lambda each: each.count)
        at = f" at {most.location.file}:{most.location.line}" if most.location is not None else ""
        return most.kind, f"graph break{at} ({most.kind})"
    phases = Counter({phase: ns for phase, ns in row.phases.items() if phase != UNATTRIBUTED})
    if not phases:
        return None, row.reasons.get("ended") or row.reasons["first"]
    [(phase, ns)] = phases.most_common(1)
    return phase, f"{duration(ns)} {trace.vocabulary.phase(phase)}"
