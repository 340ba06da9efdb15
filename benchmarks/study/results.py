"""What a study's run left: of each curve its points, and a row of figures for each of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.study.cases import Curve, Record, read

import coldstep
from coldstep.analysis.across.frameworks import NotComparable
from coldstep.analysis.across.sweeps import Point, Sweeps, sweep
from coldstep.errors import TraceError
from coldstep.model import Trace


@dataclass(slots=True)
class Swept:
    """A curve with what `coldstep compare --by n` makes of its traces."""

    curve: Curve
    sweeps: Sweeps
    records: dict[int, Record]
    warm_ns: dict[int, int]
    """By value, the first step of a second process that finds the caches of the first."""
    answers: dict[int, str]
    """By value, what coldstep would have changed first, and how; what has no such is not there."""

    @property
    def turns_at(self) -> str | None:
        """Where the curve turns."""
        return next((each.turns_at for each in self.sweeps.sweeps if each.turns_at is not None), None)

    @property
    def why(self) -> str:
        """Why it turns, or does not."""
        turning = [each.why for each in self.sweeps.sweeps if each.turns_at is not None]
        return turning[0] if turning else self.sweeps.sweeps[0].why

    def points(self) -> dict[int, Point]:
        """By value, the first run's point."""
        rows = {int(row.value): row for each in self.sweeps.sweeps for row in each.points if not _more(row.row.trace)}
        return dict(sorted(rows.items()))


def swept(curve: Curve, folder: Path) -> Swept | None:
    """The points of a curve, repeats among them; None where none came to a step."""
    traces, warm, records = [], {}, {}
    answers: dict[int, str] = {}
    for value in curve.values:
        record = read(curve.trace(folder, value))
        if record is None:  # its trace may be that of an interrupted run
            continue
        records[value] = record
        for more in ("", ".again", ".warm"):  # of a job there are only the parts, which are loaded by its name
            path = curve.trace(folder, value, more)
            trace = _loaded(path)
            if trace is not None and more == ".warm":
                warm[value] = next((row.first_step.wall_ns for row in trace.cost), 0)
            elif trace is not None:
                traces.append((str(path), trace))
                answers |= {value: _answer(trace)} if trace.answers else {}
    try:
        return Swept(curve, sweep("n", traces), records, warm, answers) if traces else None
    except NotComparable:
        return None


def _answer(trace: Trace) -> str:
    finding = next(row for row in trace.findings if row.id == trace.answers[0].finding)
    return f"{trace.answers[0].text} {finding.advice}".strip()


def _loaded(path: Path) -> Trace | None:
    try:
        return coldstep.load(path)
    except TraceError:
        return None


def _more(path: str) -> str:
    """What names a further run of a value: ".warm", ".again"; "" of the first."""
    _, dot, more = Path(path).stem.partition(".")
    return f"{dot}{more}"


COLUMNS = (
    "sweep", "stack", "way", "n", "ended", "first_ns", "until_steady_ns", "steady_ns", "cpu_ns", "eager_over_compiled",
    "peak_bytes", "warm_first_ns", "compiles", "cause", "why", "turns_at", "answer",
    "load",
)  # fmt: skip


def rows(found: Swept) -> Iterator[dict[str, object]]:
    """A row per value of a curve, by COLUMNS."""
    points = found.points()
    for value, record in found.records.items():
        point = points.get(value)
        if point is None:
            continue
        steady = point.row.steady_ns
        of_curve = {"sweep": found.curve.sweep, "stack": found.curve.stack, "way": found.curve.way, "n": value}
        yield of_curve | {
            "ended": record.ended,
            "first_ns": point.row.first_ns,
            "until_steady_ns": point.until_steady_ns,
            "steady_ns": steady,
            "cpu_ns": record.cpu_ns,
            "eager_over_compiled": float(f"{record.eager_ns / steady:.3g}") if record.eager_ns and steady else None,
            "peak_bytes": point.row.memory_bytes,
            "warm_first_ns": found.warm_ns.get(value),
            "compiles": point.row.compiles,
            "cause": point.cause,
            "why": point.why,
            "turns_at": found.turns_at,
            "answer": found.answers.get(value),
            "load": record.load[0] if record.load else None,
        }
