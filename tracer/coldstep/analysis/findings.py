"""What of a trace deserves a reader's attention, each with its cost and what to do about it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from coldstep._util.figures import duration, listed
from coldstep._util.gathered import summed
from coldstep.analysis import cuda_graphs
from coldstep.analysis.across.ranks import stragglers
from coldstep.analysis.breaks import below, discarded, what_broke
from coldstep.analysis.caches.unkept import unkept
from coldstep.analysis.make_finding import (
    MOST_NAMED,
    About,
    alike,
    finding,
    in_step,
    marked,
    of_compile,
    what_changed,
    whose,
)
from coldstep.analysis.memory import out_of_memory
from coldstep.analysis.ready.readiness import after_ready
from coldstep.analysis.recompiles.further import further
from coldstep.analysis.recompiles.many_variants import of_variants
from coldstep.analysis.remedies.table import advice as advice_of
from coldstep.analysis.reported import reported
from coldstep.analysis.rules.jax_switch import is_switched_off
from coldstep.analysis.rules.registry import RULES, rules_of
from coldstep.analysis.silent_slowdowns import silent
from coldstep.analysis.steps import eager_programs
from coldstep.analysis.steps.one_by_one import one_by_one
from coldstep.analysis.tuned_anew import tuned_anew
from coldstep.analysis.unobserved import child_words, unseen_route, untraced, untraced_words, unwatched
from coldstep.analysis.unrolled_loops import unrolled_loops
from coldstep.model import Compile, Finding, Location, Recompile, Settling, Severity, Trace
from coldstep.rows.intervals import Steps, kinds, unit
from coldstep.rows.variants import counts

_MOST_CHILDREN = 20
_MIN_EAGER_PROGRAMS = 5  # in one interval: fewer are a detail and not a habit
_MIN_EAGER_SHARE = 0.1  # of the steps in which they compiled: less is no loss
_INTO_THE_STEP = (
    "Move these operations into the jitted function, or keep their shapes and Python numbers fixed: each new one "
    "compiles anew."
)


def findings(trace: Trace) -> list[Finding]:
    """All findings, the costliest first; what could not be observed comes first of all."""
    compiles = {row.id: row for row in trace.compiles}
    also = further(trace)
    eager = [row for row in _eager(trace) if not is_switched_off(trace, row.process)]
    rows = [
        *_blind(trace),
        *(_recompile(trace, row, compiles[row.compile], also.get(row.id, [])) for row in trace.recompiles),
        *_graph_breaks(trace),
        *(_failed(trace, row) for row in trace.compiles if row.outcome == "failed"),
        *(_not_settled(trace, row) for row in trace.settling if row.verdict == "not_settled"),
        *of_variants(trace, also),
        *cuda_graphs.findings(trace),
        *silent(trace),
        *unkept(trace),
        *unrolled_loops(trace),
        *tuned_anew(trace),
        *(finding for rules in RULES.values() for find in rules.findings for finding in find(trace)),
        *eager,
        *_dispatch(trace),
        *out_of_memory(trace),
        *after_ready(trace),
        *stragglers(trace),
        *(row for row in reported(trace) if not _is_mended_with(eager, row)),
    ]
    rows.sort(key=lambda row: (row.kind != "blind", -row.cost_ns))
    for number, row in enumerate(rows):
        row.id = f"f{number}"
    return rows


def _is_mended_with(eager: list[Finding], row: Finding) -> bool:
    """Whether a call that goes through Python stands in a function that is to be jitted as a whole."""
    jitted = {(each.location.file, each.location.function) for one in eager for each in one.remedies if each.location}
    at = row.location
    return row.kind == "fast_path_miss" and at is not None and (at.file, at.function) in jitted


def _blind(trace: Trace) -> list[Finding]:
    """What was not, or not wholly, observed: a broken hook must never look like a clean run."""
    rows = []
    for row in (row for row in trace.collectors if row.state in ("failed", "late", "partial")):
        text = f"The collector {row.name} was {row.state}: what it watches may have happened unseen."
        severity: Severity = "error" if row.state == "failed" else "warning"
        rows.append(finding("blind", text, process=row.process, severity=severity, evidence=row.missing))
    rows += [
        finding("blind", f"No collector watched {framework}: what it compiled was not seen.", process=process)
        for process, framework, _ in unwatched(trace)
    ]
    rows += _unseen(trace)
    text = "The trace ends without an end: the process was killed, could not write any more, or the file was cut."
    rows += [finding("blind", text, process=p.index) for p in trace.processes if p.ended == "killed"]
    if trace.run.dropped.ledger:
        text = f"{trace.run.dropped.ledger} events of the ledger were lost: counts and times are too low."
        rows.append(finding("blind", text, severity="error"))
    return rows


def _unseen(trace: Trace) -> Iterator[Finding]:
    """What compiled by another route, or may have compiled in another process."""
    for process in trace.processes:
        if (route := unseen_route(trace, process.index)) is not None:
            yield finding("blind", f"{route}. What it made, and how often, is not known.", process=process.index)
        below = untraced(trace, process.index)
        if below:
            text = f"{untraced_words(below)}: their compiles are not known."
            evidence = [child_words(row) for row in below[:_MOST_CHILDREN]]
            yield finding("blind", text, process=process.index, evidence=evidence)


def _recompile(trace: Trace, row: Recompile, compile_: Compile, also: list[Recompile]) -> Finding:
    at, causes = trace.intervals[row.interval], [row, *also]
    names = " and ".join(dict.fromkeys([*alike(row), *(each.cause for each in also)]))
    changes = "; ".join(filter(None, map(what_changed, causes)))
    named = ((whose(each.cause, each.argument, compile_), each) for each in causes)
    words, remedies = marked([(name, each.cause, each.remedies) for name, each in named])
    text = f"{compile_.function} recompiled{in_step(at)} ({names})" + (f": {changes}" if changes else "")
    advised = About(advice=words or row.advice, remedies=remedies)
    about = About(cost_ns=row.cost_ns, evidence=row.evidence, refs=[row.id]) | advised
    return finding("recompile", text, at=at, location=compile_.caller or compile_.location, **about)


def _graph_breaks(trace: Trace) -> Iterator[Finding]:
    lost = discarded(trace)
    for row in trace.graph_breaks:
        times, what = f", {row.count} times" if row.count > 1 else "", what_broke(row.reason)
        text = f"Graph break in {row.function} ({row.kind}){times}" + (f": {what}" if what else "")
        evidence = [row.reason, *below(trace, row.id), *row.hints]
        if row.id in lost:
            evidence.append(f"{duration(lost[row.id])} of tracing up to it were thrown away, and begun anew")
        at, advised = trace.intervals[row.interval], About(advice=row.advice, remedies=row.remedies)
        about = About(cost_ns=row.cost_ns, evidence=evidence, refs=[row.id])
        yield finding("graph_break", text, at=at, location=row.location, **about | advised)


def _failed(trace: Trace, row: Compile) -> Finding:
    """A failed compile; where the graph broke that may not (fullgraph=True), with the line and the reason."""
    failure = trace.details[row.id].failure
    error = [text] if (text := trace.details[row.id].error) else []
    rules = rules_of(row.stack)
    advice = next((words for part, words in rules.by_error.items() if part in "".join(error)), "")
    at = _line_of_failure(trace, row)
    mends = (mend(trace, row, at, advice) for mend in rules.mends if advice)
    mended = next(filter(None, mends), [])
    about = About(severity="error", evidence=error, advice=advice_of(mended) or advice, remedies=mended or None)
    failed = of_compile(trace, row, "failed_compile", f"{row.function} failed to compile", **about)
    if failure is None and error:
        first, *more = error[0].splitlines()
        failed.text += f": {first} {more[0]}" if first.endswith(":") and more else f": {first}"
        failed.location = at or failed.location
    elif failure is not None:
        failed.location = failure.location or failed.location
        failed.text += f": {failure.reason}"
        failed.evidence = [failure.reason, *below(trace, row.id), *failure.hints]
        failed.advice, failed.remedies = failure.advice, failure.remedies
    return failed


def _line_of_failure(trace: Trace, row: Compile) -> Location | None:
    """The user's line in the function, where that is known."""
    known, ended = trace.details[row.id], trace.failures.get(row.process)
    line = known.error.partition("\n")[0]
    if line and ended is not None and ended.location is not None and ended.error.startswith(line):
        return ended.location
    return known.cause_at if rules_of(row.stack).by_error else None


def _not_settled(trace: Trace, row: Settling) -> Finding:
    steps = kinds(trace.intervals)[row.process, row.name]
    nothing = "compiled or recorded nothing" if trace.cuda_graphs else "compiled nothing"
    text = f"{row.name} never settled: in {len(steps)} steps there were no three in a row that {nothing}"
    return finding("not_settled", text, at=steps[-1], refs=[each.compile for each in row.causes if each.compile])


def _eager(trace: Trace) -> list[Finding]:
    """The many small programs of eager operations: by operation where they compile again and again; the others summed
    where they are initialisation, and over the later steps of each name, too. Without steps, what comes after the first
    jitted function is later."""
    repeated = eager_programs.repeated(trace)
    in_groups = {row.id for group in repeated for row in group.programs}
    groups: dict[tuple[int, int | str], list[Compile]] = defaultdict(list)
    stepped = {process for process, _ in kinds(trace.intervals)}
    jitted: dict[int, int] = {}
    others = [row for row in trace.compiles if eager_programs.is_small_program(row) and row.id not in in_groups]
    single = one_by_one(trace, others)
    in_groups |= {id_ for row in single for id_ in row.refs}
    for row in trace.compiles:
        if counts(row):
            jitted.setdefault(row.process, row.segments[0].start_ns)
        elif eager_programs.is_small_program(row) and row.id not in in_groups:
            interval = trace.intervals[row.segments[0].interval]
            later = interval.kind == "step" and bool(interval.step)
            if row.process not in stepped:
                later = row.process in jitted
            groups[row.process, (interval.name or "") if later else interval.index].append(row)
    rows = [eager_programs.told(trace, group) for group in repeated] + single
    severity: Severity
    for (_, where), programs in groups.items():
        cost_ns = sum(row.wall_ns for row in programs)
        intervals = sorted({row.segments[0].interval for row in programs})
        first = trace.intervals[intervals[0]]
        names = listed((row.function for row in programs), MOST_NAMED)
        if isinstance(where, int):
            if len(programs) < _MIN_EAGER_PROGRAMS:
                continue
            text = f"{len(programs)} small programs were compiled for eager operations"
            severity = "note"
            advice = eager_programs.ONE_JIT if programs[0].process in stepped else eager_programs.SOME_JIT
        elif cost_ns < _MIN_EAGER_SHARE * sum(trace.intervals[i].wall_ns for i in intervals):
            continue
        elif where:
            plural = "s" if len(intervals) > 1 else ""
            of = f" of {where}" if where != "step" else ""
            text = f"{len(intervals)} later step{plural}{of} compiled eager operations ({names})"
            severity, advice = "warning", _INTO_THE_STEP
        else:
            were = "s were" if len(programs) > 1 else " was"
            text = f"{len(programs)} small program{were} compiled for eager operations amid the run ({names})"
            severity, advice = "warning", _INTO_THE_STEP
        about = About(severity=severity, cost_ns=cost_ns, advice=advice, refs=[row.id for row in programs])
        rows.append(finding("eager_compiles", text, at=first, location=_dearest(programs), **about))
    return rows


def _dearest(programs: list[Compile]) -> Location | None:
    """The line under which most of their time was spent."""
    spent = summed(((row.caller.file, row.caller.line), row.wall_ns) for row in programs if row.caller is not None)
    places = (row.caller for row in programs if row.caller is not None)
    return max(places, key=lambda place: spent[place.file, place.line], default=None)


def _dispatch(trace: Trace) -> Iterator[Finding]:
    """Steps that were timed without waiting for what they are seen to have started. JAX's fast path shows nothing:
    steps that do nothing else are not spoken of."""
    compiles = {row.id: row for row in trace.compiles}
    for (_, name), steps in kinds(trace.intervals, trace.unfinished).items():
        hasty = Steps(part for part in steps.parts if part.measures == "dispatch")
        started = any(part.python_dispatches for part in steps.parts) or any(
            _is_asynchronous(trace, compiles[c]) for row in steps.alone() for c in row.compiles
        )
        if hasty and started:
            one = unit(hasty[0])
            what = f"1 {one} ends when its" if len(hasty) == 1 else f"{len(hasty)} {one}s end when their"
            text = f"{name}: {what} work is handed to the device, not when it is done; a later {one} may wait for it"
            advice = f"Put coldstep.wait(…) around the {one}'s result, or move the line that reads it into it."
            yield finding("dispatch_timed", text, severity="note", at=hasty[0], advice=advice)


def _is_asynchronous(trace: Trace, row: Compile) -> bool:
    """Whether calls of the compiled program return before it has run; torch on a CPU runs it inside the call."""
    if row.outcome in ("failed", "traced_only", "skipped"):
        return False
    return not trace.vocabulary.in_call(row.stack) or any(" @" in input_.type for input_ in row.inputs or ())
