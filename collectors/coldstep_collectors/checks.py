"""What `coldstep doctor` looks for in the trace of a stack's self-test: a promise that was kept, in words."""

from __future__ import annotations

from collections.abc import Callable

from coldstep._util.figures import duration
from coldstep.model import Trace

Check = Callable[[Trace], str | None]
"""The evidence that a promise was kept, in words; None where it was not."""


def steps(trace: Trace) -> str | None:
    steps = [row for row in trace.intervals if row.kind == "step"]
    return f"{len(steps)} steps" if len(steps) == 2 else None


def compiled(function: str | None, trace: Trace) -> str | None:
    rows = [row for row in trace.compiles if function in (None, row.function) and row.outcome == "compiled"]
    return f"{rows[0].function} compiled in {duration(rows[0].wall_ns)}" if rows else None


def recompiled(trace: Trace) -> str | None:
    rows = [row for row in trace.recompiles if (row.cause, row.before, row.after) == ("shape", "f32[8]", "f32[5]")]
    return f"{rows[0].argument} was f32[8], now f32[5]: shape" if rows else None


def broken(kind: str, trace: Trace) -> str | None:
    rows = [row for row in trace.graph_breaks if row.kind == kind and row.location is not None]
    return f"{kind}, at line {rows[0].location.line}" if rows and rows[0].location else None


def loaded(function: str, trace: Trace) -> str | None:
    rows = [row for row in trace.compiles if row.function == function and row.outcome == "cache_hit"]
    return f"{function} came from disk in {duration(rows[0].wall_ns)}" if rows else None
