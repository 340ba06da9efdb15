"""The answer with which each report begins, as data for every format: what to change, or that nothing needs it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from coldstep._util.figures import count, duration, percent
from coldstep.analysis.make_finding import MARK
from coldstep.analysis.remedies.table import sentences
from coldstep.analysis.unobserved import unknown
from coldstep.blind_spots import BREAKS, COMPILES, RECOMPILES
from coldstep.model import UNATTRIBUTED, Finding, Trace
from coldstep.rows.intervals import kinds, parts, phases_of, unit
from coldstep_viewers.report.ledger import from_log

_EACH = "Each of these causes compiles it again by itself: make the change for each."


@dataclass(slots=True)
class Entry:
    """One thing to change."""

    number: int
    """From 1."""
    cost: str
    """A change saves this, or this was paid; "" where a log does not have it."""
    text: str
    """What happened, and why."""
    place: str
    """ "train.py:75", or ""."""
    code: str
    """That line."""
    change: list[str]
    """What to do, a sentence each."""


@dataclass(slots=True)
class Head:
    """What stands under the headline."""

    title: str
    """What all of it comes to; or that nothing needs changing."""
    blind: list[str]
    """Why there may be more than was seen."""
    entries: list[Entry]
    """The dearest first."""
    rest: str
    """What else was, or was not, in a line."""


def head(trace: Trace, every: bool = False) -> Head:
    """The answer; advice that two of them share is in the first alone, but where `every` line is asked for."""
    entries = list(_entries(trace, every))
    blind = [why for claim in (COMPILES, RECOMPILES, BREAKS) if (why := unknown(trace, claim))]
    seen = [f"Not all could be seen: {why}." for why in dict.fromkeys(blind)]
    return Head(_title(trace, bool(blind)), seen, entries, _rest(trace) if entries else "")


def numbers(trace: Trace) -> dict[str, int]:
    """By the id of a finding, and of the rows that it speaks of, the number of its answer. A loop that what compiled
    again holds is in the same answer, which does not speak of it."""
    by_id = {row.id: row for row in trace.findings}
    numbered: dict[str, int] = {}
    for number, answer in enumerate(trace.answers, 1):
        first, *also = (by_id[id_] for id_ in (answer.finding, *answer.also))
        for finding in (first, *(row for row in also if row.kind != "unrolled" or first.kind == "unrolled")):
            for id_ in (finding.id, *finding.refs):
                numbered.setdefault(id_, number)
    return numbered


def _entries(trace: Trace, every: bool) -> Iterator[Entry]:
    by_id = {row.id: row for row in trace.findings}
    stacks = {row.id: row.stack for row in trace.compiles}
    several = len({*stacks.values()}) > 1
    first: dict[tuple[str, ...], int] = {}
    for number, answer in enumerate(trace.answers, 1):
        finding, place = by_id[answer.finding], answer.location
        whose = _stack(trace, finding) if several else ""
        alike = {finding.process, *(each.process for id_ in answer.also if (each := by_id[id_]).text == finding.text)}
        where = f" (in {len(alike)} processes alike)" if len(alike) > 1 else ""
        # what cannot be helped of one of several causes is a part of what the others do not save
        shown = [row for row in finding.remedies if row.how != "none" or row.text.startswith(MARK)]
        change = [sentence for row in shown for sentence in sentences(row)]
        if len({row.text.partition(":")[0] for row in shown if row.text.startswith(MARK)}) > 1:
            change.append(_EACH)
        same = number if every else first.setdefault((*change,), number)
        yield Entry(
            number,
            f"{'saves' if answer.saves else 'paid'} {duration(answer.cost_ns)}" if answer.cost_ns else "",
            f"{whose}{answer.text}{where}",
            f"{place.file}:{place.line}" if place is not None else "",
            trace.code.get((place.file, place.line), "").strip() if place is not None else "",
            change if same == number or not change else [f"The same as for {same}."],
        )


def _stack(trace: Trace, finding: Finding) -> str:
    """The framework that it is of: "torch: "."""
    again = {row.id: row.compile for row in trace.recompiles} | {row.id: row.compile for row in trace.graph_breaks}
    stacks = {row.id: row.stack for row in trace.compiles}
    stack = next((stacks[id_] for ref in finding.refs if (id_ := again.get(ref, ref)) in stacks), "")
    return f"{trace.vocabulary.stacks[stack].packages[0]}: " if stack in trace.vocabulary.stacks else ""


def lasted_ns(trace: Trace) -> int:
    """How long the run took: of one process from its start, of several from the begin of the first trace."""
    before = trace.processes[0].before_trace_ns if len(trace.processes) == 1 else 0
    return before + trace.run.wall_ns


def _title(trace: Trace, blind: bool) -> str:
    if not trace.answers:
        return _nothing(trace, blind)
    spent = sum(row.cost_ns for row in trace.answers)
    if not spent or from_log(trace) or len(trace.processes) != 1:
        return "What to change"
    whole = lasted_ns(trace)
    return f"What to change: {duration(spent)} of the run's {duration(whole)}" if spent < whole else "What to change"


def _nothing(trace: Trace, blind: bool) -> str:
    """That nothing needs changing, and what was paid."""
    advised = any(row.advice for row in trace.recompiles) or any(row.advice for row in trace.findings)
    if blind and from_log(trace) and advised:
        return "What to change: the log has no costs, so see the advice below"
    if blind:
        return "Nothing to change, as far as was seen"
    made = sum(row.parent is None and row.origin == "user" for row in trace.compiles)
    if not made:
        own = " of the program's own" if trace.compiles else ""
        return f"Nothing to change: {_outside(trace) or f'nothing{own} compiled'}"
    paid = ""
    if trace.cost:
        first = kinds(trace.intervals)[trace.cost[0].process, trace.cost[0].name][0]
        paid = f"; the first {unit(first)} took {duration(first.wall_ns)}"
    broken = f", and {count(len(trace.graph_breaks), 'graph break')}" if trace.graph_breaks else ""
    return f"Nothing to change: {count(made, 'compile')}, {_again(trace)}{broken}{paid}"


def _outside(trace: Trace) -> str:
    """What was paid where no framework compiled anything: a kernel that Triton compiles is compiled, too."""
    tuned = sum(row.compile_ns + row.timing_ns for row in trace.autotuning)
    built = sum(row.wall_ns for row in trace.builds)
    words = [f"{count(len(trace.builds), 'build')} outside of the frameworks took {duration(built)}"] if built else []
    words += [f"autotuning took {duration(tuned)}"] if tuned else []
    return ", ".join(words)


def _again(trace: Trace) -> str:
    if not trace.recompiles:
        return "none of them a recompile"
    unexplained = sum(row.cause == "unknown" for row in trace.recompiles)
    if unexplained:
        return f"{count(unexplained, 'recompile')} of unknown cause among them"
    return f"{count(len(trace.recompiles), 'recompile')} among them, too cheap for a change or wanted"


def _rest(trace: Trace) -> str:
    """What the answers leave aside."""
    numbered = numbers(trace)
    others = sum(row.id not in numbered for row in trace.recompiles)
    words = []
    if unknown(trace, RECOMPILES) is None:
        words.append(f"{count(others, 'more recompile')} below." if others else "Nothing else recompiled.")
    can_break = any(trace.vocabulary.stacks[row.stack].breaks for row in trace.compiles if row.stack in
                    trace.vocabulary.stacks)  # fmt: skip
    if can_break and not trace.graph_breaks and unknown(trace, BREAKS) is None:
        words.append("No graph break.")
    if trace.processes and not from_log(trace):
        spent = phases_of(parts(trace.intervals), between=True)
        whole = sum(spent.values())
        if whole:
            words.append(f"{percent(spent.get(UNATTRIBUTED, 0) / whole)} of the time is unattributed.")
    return " ".join(words)
