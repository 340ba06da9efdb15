"""A trace in twenty figures, for a log, a dashboard or an experiment tracker."""

from __future__ import annotations

import os

from coldstep._util.gathered import summed
from coldstep.analysis.unobserved import unknown
from coldstep.blind_spots import BREAKS, COMPILES, RECOMPILES
from coldstep.loading import load
from coldstep.model import Cost, Trace
from coldstep.rows.intervals import kinds

_S = 1e9

Figure = float | int | str | None


def summary(trace: Trace | str | os.PathLike[str]) -> dict[str, Figure]:
    """Summarise a trace, or the file at a path, as a flat dictionary. Its keys stay, and an unknown figure is None.

    If there are several kinds of step (training, validation), the figures are of the kind with the most steps, which
    `step` names. Keys of seconds end in `_s`. A job's figures cover all its processes. Its first step is the one of the
    process with the lowest `rank`, or otherwise of the process that started first. Raises TraceError for a file that is
    no trace.
    """
    trace = trace if isinstance(trace, Trace) else load(trace)
    return _of_steps(trace) | _of_compiles(trace) | _of_run(trace)


def _of_steps(trace: Trace) -> dict[str, Figure]:
    steps = kinds(trace.intervals)
    of: Cost | None = max(trace.cost, key=lambda row: len(steps[row.process, row.name]), default=None)
    if of is None:
        names = ("step", "steps", "first_step_s", "first_step_phase", "time_to_first_step_s", "time_to_settled_s")
        return dict.fromkeys((*names, "steady_step_s", "settled_at_step"))
    phase = max(of.first_step.phases, key=lambda row: row.ns, default=None)
    settled = next((row for row in trace.settling if (row.process, row.name) == (of.process, of.name)), None)
    return {
        "step": of.name,
        "steps": len(steps[of.process, of.name]),
        "first_step_s": of.first_step.wall_ns / _S,
        "first_step_phase": phase.phase if phase is not None else None,
        "time_to_first_step_s": of.time_to_first_step_ns / _S,
        "time_to_settled_s": _seconds(of.time_to_settled_ns),
        "steady_step_s": _seconds(of.steady_step_ns),
        "settled_at_step": settled.settled_at_step if settled is not None else None,
    }


def _of_compiles(trace: Trace) -> dict[str, Figure]:
    unseen = unknown(trace, COMPILES) is not None
    unexplained = unknown(trace, RECOMPILES) is not None
    outermost = [row for row in trace.compiles if row.parent is None]
    causes = summed((row.cause, row.cost_ns) for row in trace.recompiles)
    asked = [each.state for row in trace.compiles for each in row.caches]
    return {
        "compiles": None if unseen else len(outermost),
        "compile_s": None if unseen else sum(row.wall_ns for row in outermost) / _S,
        "recompiles": None if unexplained else len(trace.recompiles),
        "recompile_s": None if unexplained else sum(causes.values()) / _S,
        "top_cause": max(causes, key=causes.__getitem__, default=None),
        "graph_breaks": None if unknown(trace, BREAKS) is not None else len(trace.graph_breaks),
        "cache_hits": asked.count("hit"),
        "cache_misses": asked.count("miss"),
    }


def _of_run(trace: Trace) -> dict[str, Figure]:
    return {
        "wall_s": trace.run.wall_ns / _S,
        "to_change": len(trace.answers),
        "peak_rss_bytes": trace.memory.peak_rss_bytes,
        "ended": trace.run.ended,
    }


def _seconds(ns: int | None) -> float | None:
    return None if ns is None else ns / _S
