"""What of a trace deserves a reader's attention, each with its cost and what to do about it."""

from __future__ import annotations

from collections import defaultdict

from coldstep.model import Compile, Finding, GraphBreak, Interval, Location, Recompile, Settling, Trace

_OFTEN = 3  # so many recompiles of one identity are one finding of their own
_NEAR = 2  # so many variants below the limit it is time to say so
_EAGER_WORTH = 5  # so many eager programs in one interval are a habit and not a detail
_EAGER_SHARE = 0.1  # of the steps in which they compiled: less is no loss
_ONE_JIT = "Wrap the initialisation in one jax.jit: one program instead of many."
_INTO_THE_STEP = (
    "Move these operations into the jitted step, or keep their shapes fixed: each new shape compiles anew, outside "
    "what settling counts."
)
_LIBRARY_BREAK = (
    "The library that this line calls breaks the graph itself: leave the call out of the compiled function, or accept "
    "the break."
)
_BREAK_ADVICE = {
    "data_dependent": "Keep the value on the device: torch.where or torch.cond instead of a branch on a tensor, and "
    "read .item() outside the compiled function.",
    "side_effect": "Move the side effect (print, logging, an attribute or file write) out of the compiled function.",
    "unsupported_call": "Move the call out of the compiled function, or register it as a custom operator "
    "(torch.library.custom_op).",
    "explicit": "Remove the explicit graph break (torch._dynamo.graph_break, torch.compiler.disable) if it can go.",
    "skipped_frame": "The whole function runs eagerly: move the loop body into a function of its own, or take what "
    "breaks out of the loop.",
}


def advise(graph_breaks: list[GraphBreak], code: dict[tuple[str, int], str]) -> None:
    """Give each graph break its advice; `code` quotes the lines."""
    for row in graph_breaks:
        line = code.get((row.location.file, row.location.line), "") if row.location else ""
        if row.kind == "explicit" and line and "graph_break" not in line and "disable" not in line:
            row.advice = (
                "The library that this line calls breaks the graph itself: leave the call out of the compiled "
                "function, or accept the break."
            )
        elif row.kind == "skipped_frame" and "loop" not in row.reason:
            row.advice = "The whole function runs eagerly: take what the reason names out of it."
        else:
            row.advice = _BREAK_ADVICE.get(row.kind, "")


def findings(trace: Trace) -> list[Finding]:
    """All findings, the costliest first; what could not be observed comes first of all."""
    found = [
        *_blind(trace),
        *(_recompile(trace, row) for row in trace.recompiles),
        *(_graph_break(row) for row in trace.graph_breaks),
        *(_compile(trace, row) for row in trace.compiles if row.outcome in ("failed", "limit")),
        *(_not_settled(trace, row) for row in trace.settling if row.verdict == "not_settled"),
        *_repeat_offenders(trace),
        *_near_the_limit(trace),
        *_eager(trace),
        *_dispatch(trace),
    ]
    found.sort(key=lambda finding: (finding.kind != "blind", -finding.cost_ns))
    for number, finding in enumerate(found):
        finding.id = f"f{number}"
    return found


def _finding(
    kind: str,
    severity: str,
    text: str,
    *,
    process: int = 0,
    interval: int | None = None,
    step: int | None = None,
    cost_ns: int = 0,
    location: Location | None = None,
    evidence: list[str] | None = None,
    advice: str = "",
    refs: list[str] | None = None,
) -> Finding:
    return Finding(
        "", process, kind, severity, interval, step, cost_ns, location, text, evidence or [], advice, refs or []
    )


def _blind(trace: Trace) -> list[Finding]:
    """What was not, or not wholly, observed: a broken hook must never look like a clean run."""
    rows = [
        _finding(
            "blind",
            "error" if row.state == "failed" else "warning",
            f"The collector {row.name} was {row.state}: what it watches may have happened unseen.",
            process=row.process,
            evidence=row.missing,
        )
        for row in trace.collectors
        if row.state in ("failed", "late", "partial")
    ]
    if trace.run.ended == "killed":
        rows.append(_finding("blind", "warning", "The trace ends without an end: the process was killed, or it "
                             "could not write any more."))  # fmt: skip
    if trace.run.dropped.ledger:
        text = f"{trace.run.dropped.ledger} events of the ledger were lost: counts and times are too low."
        rows.append(_finding("blind", "error", text))
    return rows


def _recompile(trace: Trace, row: Recompile) -> Finding:
    compile_ = next(c for c in trace.compiles if c.id == row.compile)
    where = f" in step {row.step}" if row.step is not None else ""
    change = f": {row.argument} was {row.before}, now {row.after}" if row.argument else ""
    return _finding(
        "recompile",
        "warning",
        f"{compile_.function} recompiled{where} ({row.cause}){change}",
        process=row.process,
        interval=row.interval,
        step=row.step,
        cost_ns=row.cost_ns,
        location=compile_.caller or compile_.location,
        evidence=row.evidence,
        advice=row.advice,
        refs=[row.id],
    )


def _graph_break(row: GraphBreak) -> Finding:
    times = f", {row.count} times" if row.count > 1 else ""
    return _finding(
        "graph_break",
        "warning",
        f"Graph break in {row.function} ({row.kind}){times}",
        process=row.process,
        interval=row.interval,
        step=row.step,
        cost_ns=row.cost_ns,
        location=row.location,
        evidence=[row.reason, *row.hints],
        advice=row.advice,
        refs=[row.id],
    )


def _compile(trace: Trace, row: Compile) -> Finding:
    interval = row.segments[0].interval
    failed = row.outcome == "failed"
    text = (
        f"{row.function} failed to compile"
        if failed
        else f"{row.function} reached its limit of {row.variant.limit} variants and runs eagerly from here on"
    )
    return _finding(
        "failed_compile" if failed else "cache_limit",
        "error",
        text,
        process=row.process,
        interval=interval,
        step=trace.intervals[interval].step,
        cost_ns=row.wall_ns,
        location=row.caller or row.location,
        evidence=[*([trace.errors[row.id]] if row.id in trace.errors else []), *trace.guard_failures.get(row.id, [])],
        refs=[row.id],
    )


def _not_settled(trace: Trace, row: Settling) -> Finding:
    steps = [i for i in trace.intervals if i.kind == "step" and i.name == row.name and i.process == row.process]
    return _finding(
        "not_settled",
        "warning",
        f"{row.name} never settled: in {len(steps)} steps there were no three in a row that compiled nothing",
        process=row.process,
        interval=steps[-1].index,
        step=steps[-1].step,
        refs=[cause.compile for cause in row.causes],
    )


def _repeat_offenders(trace: Trace) -> list[Finding]:
    """Functions that compile again and again, each in one line with the values that did it."""
    compiles = {row.id: row for row in trace.compiles}
    offences: dict[tuple[int, str], list[Recompile]] = defaultdict(list)
    for row in trace.recompiles:
        offences[row.process, trace.identities[row.compile]].append(row)
    rows = []
    for (process, _), again in offences.items():
        if len(again) < _OFTEN:
            continue
        last, compile_ = again[-1], compiles[again[-1].compile]
        values = [again[0].before, *(row.after for row in again)] if last.argument else []
        sequence = " → ".join(value for value in values if value)
        named = f": {last.argument} was {sequence}" if sequence else ""
        rows.append(
            _finding(
                "repeat_offender",
                "warning",
                f"{compile_.function} recompiled {len(again)} times{named}",
                process=process,
                interval=last.interval,
                step=last.step,
                cost_ns=sum(row.cost_ns for row in again),
                location=compile_.caller or compile_.location,
                advice=last.advice,
                refs=[row.id for row in again],
            )
        )
    return rows


def _near_the_limit(trace: Trace) -> list[Finding]:
    """Functions with so many variants that soon no more will be compiled."""
    latest: dict[tuple[int, str], Compile] = {}
    for row in trace.compiles:
        if row.variant.limit is not None and row.variant.limit - row.variant.n <= _NEAR and row.variant.n > 1:
            latest[row.process, trace.identities[row.id]] = row
    reached = {(row.process, trace.identities[row.id]) for row in trace.compiles if row.outcome == "limit"}
    return [
        _finding(
            "cache_limit_near",
            "warning",
            f"{row.function} is at variant {row.variant.n} of {row.variant.limit}: beyond, it runs eagerly, in silence",
            process=row.process,
            interval=row.segments[0].interval,
            step=trace.intervals[row.segments[0].interval].step,
            cost_ns=row.wall_ns,
            location=row.caller or row.location,
            refs=[row.id],
        )
        for place, row in latest.items()
        if place not in reached
    ]


def _eager(trace: Trace) -> list[Finding]:
    """The many small programs of eager operations: summed where they are initialisation, and, since they count for
    no step's settling, summed over the later steps of each name, too."""
    groups: dict[tuple[int, int | str], list[Compile]] = defaultdict(list)
    for row in trace.compiles:
        if row.origin == "eager" and row.outcome != "traced_only" and row.parent is None:
            interval = trace.intervals[row.segments[0].interval]
            later = interval.kind == "step" and bool(interval.step)
            groups[row.process, (interval.name or "") if later else interval.index].append(row)
    rows = []
    for (process, where), programs in groups.items():
        cost_ns = sum(row.wall_ns for row in programs)
        intervals = sorted({row.segments[0].interval for row in programs})
        first = trace.intervals[intervals[0]]
        if isinstance(where, int):
            if len(programs) < _EAGER_WORTH:
                continue
            severity, text, advice = (
                "note",
                f"{len(programs)} small programs were compiled for eager operations",
                _ONE_JIT,
            )
        elif cost_ns < _EAGER_SHARE * sum(trace.intervals[i].wall_ns for i in intervals):
            continue
        else:
            names = ", ".join(list(dict.fromkeys(row.function for row in programs))[:5])
            plural = "s" if len(intervals) > 1 else ""
            text = f"{len(intervals)} later step{plural} of {where} compiled eager operations ({names})"
            severity, advice = "warning", _INTO_THE_STEP
        rows.append(
            _finding(
                "eager_compiles",
                severity,
                text,
                process=process,
                interval=first.index,
                step=first.step,
                cost_ns=cost_ns,
                location=next((row.caller for row in programs if row.caller), None),
                advice=advice,
                refs=[row.id for row in programs],
            )
        )
    return rows


def _dispatch(trace: Trace) -> list[Finding]:
    """Steps that were timed without waiting for what they started, where something works on after the call."""
    compiles = {row.id: row for row in trace.compiles}
    elsewhere = any(_is_asynchronous(row) for row in trace.compiles)
    steps: dict[tuple[int, str | None], list[Interval]] = defaultdict(list)
    for interval in trace.intervals:
        if interval.kind == "step" and interval.index != trace.unfinished:
            steps[interval.process, interval.name].append(interval)
    rows = []
    for (process, name), mine in steps.items():
        own = [compiles[c] for row in mine for c in row.compiles if compiles[c].origin == "user"]
        hasty = [row for row in mine if row.measures == "dispatch"]
        # steps that compile nothing of their own may run what was compiled elsewhere
        if hasty and (any(map(_is_asynchronous, own)) if own else elsewhere):
            what = "1 step ends when its" if len(hasty) == 1 else f"{len(hasty)} steps end when their"
            rows.append(
                _finding(
                    "dispatch_timed",
                    "note",
                    f"{name}: {what} work is handed to the device, not when it is done; a later step may wait for it",
                    process=process,
                    interval=hasty[0].index,
                    step=hasty[0].step,
                    advice="Put coldstep.wait(…) around the step's result.",
                )
            )
    return rows


def _is_asynchronous(row: Compile) -> bool:
    """Whether calls of the compiled program return before it has run; torch on a CPU runs it inside the call."""
    if row.outcome in ("failed", "traced_only", "skipped"):
        return False
    return row.stack != "dynamo" or any(" @" in input_.type for input_ in row.inputs)
