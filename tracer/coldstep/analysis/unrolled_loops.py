"""Programs that hold every turn of a Python loop, and take as much longer to compile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from coldstep.analysis.make_finding import of_compile
from coldstep.analysis.remedies.row import Row
from coldstep.analysis.remedies.table import Case, remedies
from coldstep.model import Finding, Trace

_LEAST_NS = 50_000_000
"""Of compiling that the further turns may have taken: less is no loss."""


def unrolled_loops(trace: Trace, rows: Mapping[str, Row]) -> Iterator[Finding]:
    """One finding for each program that is compiled; `rows`: by stack, what to do."""
    for compile_ in trace.compiles:
        loop = trace.details[compile_.id].unrolled
        if loop is None or compile_.outcome != "compiled" or compile_.stack not in rows:
            continue
        share = loop.operations / max(1, loop.of)
        cost = round(compile_.wall_ns * share * (1 - 1 / max(1, loop.turns)))
        if cost < _LEAST_NS:
            continue
        id_ = f"{compile_.stack}.unrolled:{loop.location.file}:{loop.location.line}"
        row = of_compile(
            trace,
            compile_,
            "unrolled",
            "note",
            f"{compile_.function} holds each of {loop.turns} turns of a loop in line {loop.location.line}: "
            f"{loop.operations} of its {loop.of} operations",
            cost_ns=cost,
            evidence=["an estimate: the time of its compile, by the share of operations that further turns add"],
            remedies=remedies(rows[compile_.stack], Case(id_, {})),
        )
        row.location = loop.location
        yield row
