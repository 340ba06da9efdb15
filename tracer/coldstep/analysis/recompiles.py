"""Why a compile happened again: the two signatures compared, and held against the framework's own words."""

from __future__ import annotations

from dataclasses import dataclass

from coldstep.analysis.advice import advise, dims
from coldstep.analysis.guards import Guard, read, refine
from coldstep.model import Change, Compile, Recompile, Trace
from coldstep.signature import differences

_UNPROVEN = ("unknown", "cache_cleared")  # mechanisms that explain nothing where another one is there


def recompiles(trace: Trace) -> list[Recompile]:
    """One row per further compile of an identity."""
    by_id = {compile_.id: compile_ for compile_ in trace.compiles}
    again = [c for c in trace.compiles if c.reason == "recompile"]
    rows = [_row(trace, number, compile_, by_id) for number, compile_ in enumerate(again)]
    for row in rows:
        row.pattern = _pattern(row, rows, trace)
        row.advice = advise(by_id[row.compile].stack, row)
    return rows


def _pattern(row: Recompile, rows: list[Recompile], trace: Trace) -> str | None:
    """The story around the cause, where the trace proves one."""
    if row.cause == "type" and row.before == "None":
        return "lazily_created"
    sizes = _sizes(row)
    if row.cause != "shape" or sizes is None:
        return None
    identities, intervals = trace.identities, trace.intervals
    mine = [r for r in rows if identities[r.compile] == identities[row.compile] and r.argument == row.argument]
    grown = [pair for r in mine if r.cause == "shape" and (pair := _sizes(r)) is not None]
    if len(grown) > 2 and all(before < after for before, after in grown):
        return "growing"
    steps = [i.index for i in intervals if i.kind == "step" and i.name == intervals[row.interval].name]
    if row.step is not None and steps and steps[-1] == row.interval and sizes[1] < sizes[0]:
        return "last_batch"
    return None


def _sizes(row: Recompile) -> tuple[int, int] | None:
    """The one dimension that differs, before and after; None where there is not exactly one."""
    pairs = [
        (int(old), int(new))
        for old, new in zip(dims(row.before), dims(row.after), strict=False)
        if old != new and old.isdigit() and new.isdigit()
    ]
    return pairs[0] if len(pairs) == 1 and len(dims(row.before)) == len(dims(row.after)) else None


@dataclass(slots=True)
class _Verdict:
    """The change that explains a miss, None where nothing shown explains it."""

    change: Change | None
    proven: bool


def _row(trace: Trace, number: int, compile_: Compile, by_id: dict[str, Compile]) -> Recompile:
    previous = by_id.get(trace.previous.get(compile_.id, ""))
    changes: list[Change] = []
    if previous is not None:
        changes = differences(trace.signatures[previous.id], trace.signatures[compile_.id])
    words = trace.guard_failures.get(compile_.id, [])
    if compile_.stack == "dynamo":
        changes = refine(changes)
    if compile_.stack == "dynamo" and words:
        about = _about(words, trace.framework_ids.get(previous.id) if previous else None)
        guards = [read(text, trace.guarded.get(compile_.id)) for text in about]
        verdict = _by_guards(guards, changes)
        if verdict.change is not None and verdict.change not in changes:
            changes = [verdict.change, *changes]
    else:
        verdict = _by_signature(compile_.stack, changes)
    change = verdict.change
    cause = change.mechanism if change else "unknown"
    evidence = list(words)
    if change is None:
        evidence += [f"{c.argument}: {c.before} → {c.after}" for c in changes]
        evidence = evidence or ["both signatures are equal in all that could be seen"]
    interval = compile_.segments[0].interval
    return Recompile(
        id=f"r{number}",
        process=compile_.process,
        compile=compile_.id,
        previous=previous.id if previous else None,
        interval=interval,
        step=trace.intervals[interval].step,
        cause=cause,
        pattern=None,
        argument=change.argument if change else None,
        before=change.before if change else None,
        after=change.after if change else None,
        changes=changes,
        evidence=evidence,
        confidence="proven" if verdict.proven else "inferred",
        advice="",
        cost_ns=compile_.wall_ns,
    )


def _by_signature(stack: str, changes: list[Change]) -> _Verdict:
    """JAX compiles anew for any difference: the first one that can be named explains it. Other stacks don't."""
    known = [change for change in changes if change.mechanism not in _UNPROVEN]
    cleared = [change for change in changes if change.mechanism == "cache_cleared"]
    if stack == "dynamo" and cleared:  # no guard was asked
        return _Verdict(cleared[0], True)
    known = known or [change for change in changes if change.mechanism != "unknown"]
    if known and (stack == "jax" or len(known) == len(changes)):
        return _Verdict(known[0], stack == "jax")
    return _Verdict(None, False)


def _by_guards(guards: list[Guard], changes: list[Change]) -> _Verdict:
    """The change that a failed guard speaks of. Only that can be the cause: a dynamic dimension may differ, too,
    without having compiled anything."""
    for guard in guards:
        for change in changes:
            if guard.speaks_of(change):
                return _Verdict(change, True)
    for guard in guards:
        if (alone := guard.change()) is not None:
            return _Verdict(alone, True)
    return _Verdict(None, False)


def _about(words: list[str], framework_id: str | None) -> list[str]:
    """The words on the variant that this compile is compared with; all of them where none names it."""
    return [text for text in words if framework_id and text.startswith(f"{framework_id}:")] or words
