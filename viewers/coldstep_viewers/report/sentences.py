"""Sentences that several viewers share: where in the run, the change, the blind spots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from coldstep._util.figures import count, duration, listed
from coldstep._util.gathered import gathered
from coldstep.analysis.make_finding import alike, both_values, kept_with
from coldstep.analysis.unobserved import child_words, unknown, unseen_route, untraced, untraced_words
from coldstep.blind_spots import told_by
from coldstep.model import Compile, Recompile, Trace
from coldstep.rows.intervals import Alike, Steps, kinds
from coldstep.rows.variants import is_variant
from coldstep.vocabulary import CACHES, package_of
from coldstep_viewers.report.headline import ending
from coldstep_viewers.report.ledger import from_log, total
from coldstep_viewers.safe_text import short

_WAIT_FACTOR = 20  # a step that takes more than this many times its wait has waited for nothing
_MAX_ALIKE = 3


def step_of(trace: Trace, index: int) -> str:
    """An interval in words: "step 7 of jax", "before the first step", "in no step" where there were none."""
    row = trace.intervals[index]
    if row.kind != "step" and not any(process == row.process for process, _ in kinds(trace.intervals)):
        return "in no step"
    if row.kind != "step":
        return {"before": "before the first step", "after": "after the last step"}.get(row.kind, "between steps")
    return f"step {row.step}" if row.name == "step" else f"step {row.step} of {short(row.name or '')}"


_INFERRED = {
    "other_tool": "each mark of {of}{where}",
    "trainer": "each step of {of}{where}",
    "optimizer": "each end of {of}(){where}",
    "feedback": "each call of {of}{where}, which trains",
    "call": "each call of {of}{where}",
    "sync": "each torch_xla sync",
}
"""By rule, what a kind of step was inferred from."""


def inferred_from(trace: Trace, process: int, name: str) -> str | None:
    """What the steps of a name were inferred from, and what else was seen again and again; None where the program
    marks them."""
    inference = next((row for row in trace.inferences if row.process == process), None)
    by = inference.steps.get(name) if inference is not None else None
    if inference is None or by is None:
        return None
    where = f" at {by.location.file}:{by.location.line}" if by.location is not None else ""
    steps = kinds(trace.intervals).get((process, name), ())
    text = f"not marked but inferred: {_INFERRED[by.rule].format(of=by.of, where=where)}, {len(steps)} of them"
    if by.rule != "call" or len(inference.steps) == 1:
        also = [f"{what}, {number}" for what, number in inference.also.items()]
        text += f"; also seen: {'; '.join(also)}" if also else ""
    return "; ".join([text, *inference.notes])


def not_traced(trace: Trace) -> list[str]:
    """The processes below that may have compiled: what ran, and what it took."""
    return [child_words(row) for row in untraced(trace)]


def without_steps(trace: Trace) -> str:
    """That no step was marked, why none was inferred, and what to do."""
    if not trace.compiles and (below := untraced_words(untraced(trace))) is not None:
        return f"No step was marked in this process. {below[0].upper()}{below[1:]}: the work may have been done there."
    compiled = {row.process for row in trace.compiles}
    missing = [row for row in trace.inferences if row.why is not None]
    inference = next((row for row in missing if row.process in compiled), next(iter(missing), None))
    why, ask = (f", and none inferred: {inference.why}", inference.ask) if inference is not None else ("", None)
    step = "module:function (__main__:function for one of the script's own)" if ask is None else ask
    return f"No step was marked{why}. Mark them with `with coldstep.step():`, or run with --step {step}."


def cause(row: Recompile) -> str:
    """Why it recompiled: the cause, of what, before and after."""
    what = f" of {row.argument}" if row.argument else ""
    change = f": {' → '.join(both_values(row))}" if row.before or row.after else ""
    return f"{mechanisms(row)}{what}{change}"


def mechanisms(row: Recompile) -> str:
    """The cause alone, with whatever else differed in the same place."""
    if row.cause == "unknown":
        return "not known"
    words = listed(alike(row))
    return words if row.confidence == "proven" else f"{words} ({row.confidence})"


def other_changes(row: Recompile) -> list[str]:
    """What else differed, where the evidence does not show it already."""
    by_place = gathered(((each.argument, each.before, each.after), each.mechanism) for each in row.changes)
    return [
        f"{f'{listed(words)} of {argument}' if argument else listed(words)}: {before or 'none'} → {after or 'none'}"
        for (argument, before, after), words in by_place.items()
        if (argument, before, after) != (row.argument, row.before, row.after)
        and f"{argument or words[0]}: {before} → {after}" not in row.evidence
    ]


def number_of(trace: Trace, rows: Sequence[object], claim: str, process: int | None = None) -> str:
    """How many there are, as far as that is known: "2", "at least 2", "not known"."""
    if unknown(trace, claim, process) is None:
        return str(len(rows))
    return f"at least {len(rows)}" if rows else "not known"


def more_unseen(trace: Trace, claim: str) -> str | None:
    """Why there may be more of what `claim` names than the trace shows."""
    why = unknown(trace, claim)
    return f"Not all that happened could be seen: {why}." if why else None


def told_twice(trace: Trace) -> str | None:
    """What recompiles cost that graph breaks caused, which both count as their cost; None where there are none."""
    caused = {compile for row in trace.graph_breaks for compile in row.compiles}
    rows = [row for row in trace.recompiles if row.compile in caused]
    if not rows:
        return None
    cost, number = duration(sum(row.cost_ns for row in rows)), count(len(rows), "recompile")
    return f"Do not add up what recompiles and graph breaks cost: {cost}, of {number}, is counted in both."


def variant(trace: Trace, row: Compile) -> str:
    """Which variant of its function a compile is, of how many: "2 of 8 allowed"."""
    return variant_number(trace, row) + (f" of {row.variant.limit} allowed" if row.variant.limit else "")


def variant_number(trace: Trace, row: Compile) -> str:
    """Which of the variants that are kept of its function a compile is; where the trace did not see the first, the
    framework may know."""
    own = kept_with(trace, row)
    known = [(each, kept_with(trace, each)) for each in trace.compiles if is_variant(each)]
    number = row.variant.n
    number -= sum(of[:2] == own[:2] and of != own and each.variant.n < row.variant.n for each, of in known)
    firsts = (each for each, of in known if of == own and each.variant.n == 1)
    if not any(each.reason == "recompile" and not trace.details[each.id].previous for each in firsts):
        return str(number)
    room = trace.details[row.id].room
    return str(row.variant.limit - room) if row.variant.limit and room is not None else f"{number + 1} or later"


def disk_caches(trace: Trace, interval: int) -> str:
    """What the caches on disk that were on did for the compiles of an interval; nothing where all were off."""
    compiled = set(trace.intervals[interval].compiles)
    caches = (cache for row in trace.compiles if row.id in compiled for cache in row.caches)
    layers = gathered((cache.layer, cache) for cache in caches if cache.state in ("hit", "miss"))
    parts = []
    for layer, rows in layers.items():
        hits = sum(row.state == "hit" for row in rows)
        saved = sum(row.saved_ns or 0 for row in rows)
        words = [f"{count(hits, 'hit')}{f' (saved {duration(saved)})' if saved else ''}"] if hits else []
        if hits < len(rows):
            words.append(count(len(rows) - hits, "miss", "misses"))
        parts.append(f"{CACHES.get(layer, layer)} {', '.join(words)}")
    return "; ".join(parts)


def unseen_execution(trace: Trace, own: Steps, steady: Steps) -> str | None:
    """That the execution of the steady steps is not, or not all, among their phases, and why; None where it is."""
    indices = {row.index for row in own.alone()}
    kind = (own[0].process, own[0].name)
    hasty = [row.interval for row in trace.findings if row.kind == "dispatch_timed" and row.interval is not None]
    if any((trace.intervals[index].process, trace.intervals[index].name) == kind for index in hasty):
        seen_in_part = "execute" in total(steady.parts)
        return f"not {'waited for' if seen_in_part else 'observed'} (no coldstep.wait in the step)"
    compiles = [row for row in trace.compiles if any(segment.interval in indices for segment in row.segments)]
    on_device = any("@" in leaf.type for row in compiles for leaf in row.inputs or ())
    stacks = [trace.vocabulary.stacks[row.stack] for row in compiles if row.stack in trace.vocabulary.stacks]
    recorded = {name for _, name in trace.device_traces}
    if not compiles:  # operation by operation, as a profiler has seen
        stacks = [each for each in trace.vocabulary.stacks.values() if each.in_call and each.profiler in recorded]
    if stacks and len(stacks) >= len(compiles) and not on_device and all(each.in_call for each in stacks):
        if (seen := len(executing(steady))) == len(steady):
            return None
        which = f" in {len(steady) - seen} of them" if seen else ""
        whose = {each.packages[0]: None for each in stacks}
        runs = "runs" if len(whose) == 1 else "run"
        rested = any(each.profiler in recorded for each in stacks)
        why = "; the profiler that sees them ended with the settling: --device all keeps it on" if rested else ""
        return f"not observed{which} ({listed(list(whose))} {runs} CPU kernels inside the call{why})"
    return None if not compiles or "execute" in total(steady.parts) else "not observed"


def executing(steps: Steps) -> Steps:
    """Those whose execution is among their phases, and not just the moment that a wait for nothing takes."""
    executed = Steps()
    for part in steps.parts:
        if isinstance(part, Alike):
            waited = zip(part.lasted("execute"), part.walls(), strict=True)
            those = part.those(ns * _WAIT_FACTOR >= wall for ns, wall in waited)
            if those is not None:
                executed.add(those)
        elif part.phases.get("execute", 0) * _WAIT_FACTOR >= part.wall_ns:
            executed.add(part)
    return executed


def how_it_ended(trace: Trace) -> Iterator[str]:
    """The end of a run that did not end by itself, and the work then under way."""
    if trace.run.ended == "ok":
        return
    where = ""
    place = trace.failures[0].location if trace.run.ended == "terminated" and 0 in trace.failures else None
    if place is not None:
        where = f" at {place.file}:{place.line}, in {place.function}"
    if trace.unfinished is not None:
        took = duration(trace.intervals[trace.unfinished].wall_ns)
        where += f" in {step_of(trace, trace.unfinished)}, not finished after at least {took}"
    yield f"{ending(trace)}{where}"
    for row in trace.compiles:
        if row.outcome == "in_progress":
            where = f" ({row.location.file}:{row.location.line})" if row.location else ""
            # the file tells how long only to within a heartbeat
            took = "" if from_log(trace) else f", {duration(row.wall_ns)} at the last heartbeat"
            yield f"still compiling: {row.function}{where}{took}"


def unobserved(trace: Trace) -> Iterator[str]:
    """The facts that the trace does not show, and those needed to read it rightly."""
    for row in trace.collectors:
        state = "" if row.state == "attached" else f" {row.state}"
        since = f", since {duration(row.since_ns)}" if row.state == "late" and row.since_ns is not None else ""
        if row.state in ("failed", "late", "partial") or row.missing:
            yield f"{row.name}{state}{since}: {'; '.join(row.missing) or 'compiles before that are not here'}"
    for process in trace.processes:
        if (route := unseen_route(trace, process.index)) is not None:
            yield f"{route}; what it made, and how often, is not known"
    if (below := untraced_words(untraced(trace))) is not None:
        yield f"{below}: compiles there are not known"
    dropped = trace.run.dropped
    if dropped.ledger:
        yield f"{count(dropped.ledger, 'event')} of the ledger lost to a write error: the figures are incomplete"
    if dropped.bulk:
        yield f"{count(dropped.bulk, 'sample')} dropped, the oldest first: recording them had a bound"
    if trace.run.ended == "killed" and from_log(trace):
        yield "what came after the log's last line: the log was cut, or the program ended there"
    elif trace.run.ended == "killed":
        yield "what came after the last write: the process was killed, or could not write any more, or the file was cut"
    if trace.run.ended == "terminated":
        yield f"what came after the last write before {trace.run.error}"
    hasty = [finding for finding in trace.findings if finding.kind == "dispatch_timed"]
    for finding in hasty[:_MAX_ALIKE]:
        yield f"{finding.text}. {finding.advice}"
    if len(hasty) > _MAX_ALIKE:
        yield f"the same of {count(len(hasty) - _MAX_ALIKE, 'more kind of step', 'more kinds of steps')}"
    yield from trace.run.notes


def never_imported(trace: Trace) -> list[str]:
    """The frameworks that were never there: nothing is missing of what their collectors watch."""
    watches = (row.name for row in trace.collectors if row.state == "absent" and not row.missing)
    absent = [name for name in watches if told_by(name) or package_of(name) != name]  # some watch no framework
    own = {stack.collector: stack.packages[0] for stack in trace.vocabulary.stacks.values()}
    there = {name for process in trace.processes for name in process.versions}
    return [name for name in dict.fromkeys(own.get(name) or package_of(name) for name in absent) if name not in there]
