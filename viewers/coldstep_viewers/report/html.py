"""A trace as one HTML page that needs nothing else: it opens from disk, asks no server, and prints.

A trace may come from anybody. Its texts reach the page as text alone: through the template's escaping, or as JSON
that the script puts in as text; and the page's own policy lets no other script run and no request leave.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import nlargest
from itertools import chain
from typing import Any, TypeVar

from coldstep._util.figures import count, duration, listed, percent, scatter
from coldstep._util.gathered import added_up
from coldstep._util.median import median
from coldstep.analysis.make_finding import both_values
from coldstep.analysis.unobserved import unknown
from coldstep.blind_spots import BREAKS, COMPILES, RECOMPILES
from coldstep.model import Compile, Cost, Finding, GraphBreak, Location, Recompile, Trace
from coldstep.rows.intervals import Alike, Steps, end_ns, imports_as_one, kinds, parts, unit
from coldstep.rows.processes import largest
from coldstep.rows.variants import is_variant
from coldstep.vocabulary import CACHES, UNATTRIBUTED
from coldstep_viewers.pages.programs_page import programs
from coldstep_viewers.pages.template import cut, rendered, scripts, style, tone
from coldstep_viewers.pages.template import shown as as_shown
from coldstep_viewers.report.answers import head
from coldstep_viewers.report.document import line
from coldstep_viewers.report.folding import alike_rows, costs, kind_of_break, kind_of_finding
from coldstep_viewers.report.headline import clauses, verdict
from coldstep_viewers.report.ledger import Stretch, before_the_trace, from_log, rest_of_run, until_settled
from coldstep_viewers.report.sections import document
from coldstep_viewers.report.sentences import (
    cause,
    disk_caches,
    how_it_ended,
    inferred_from,
    mechanisms,
    number_of,
    other_changes,
    step_of,
    told_twice,
    unseen_execution,
    variant,
    without_steps,
)
from coldstep_viewers.report.what_happened import Facts, advice, evidence, place, places
from coldstep_viewers.safe_text import short

_MAX_STEPS_ALONE = 120  # with a bar of their own, where there are too many for all
_MAX_BARS = 240
_MAX_KINDS = 8
_MAX_PHASES = 8
_MAX_FINDINGS = 100
_SUMMARY_FINDINGS = 5  # of these in a summary
_OPEN_FINDINGS = 20  # of these that show without a click
_MAX_ROWS = 10_000
_MAX_TEXTS = 24  # leaves of a signature, lines of evidence
_DETAILS_CHARS = 3_000_000  # that the details of a table's rows may take together
_MAX_TICKS = 6
_FIRST = {"below", "ranks", "job_ready", "ready"}  # sections that stand above those that are drawn
_DRAWN = {"time", "steps", "recompiles", "breaks", "memory", "findings", "ended", "unobserved"}

Json = dict[str, Any]
Details = dict[str, list[str]]
Row = TypeVar("Row", Compile, GraphBreak)


def page(trace: Trace) -> str:
    """The whole page."""
    kinds = _kinds(trace)
    sections = document(trace).sections
    drawn = [{"bars": kind.bars, "tones": kind.tones} for kind in kinds]
    return rendered(
        "page.html",
        **_begin(trace),
        **_findings(trace),
        **scripts("page.js"),
        trace=trace,
        style=style(trace.vocabulary),
        data={"kinds": drawn, "compiles": _compiles(trace), "breaks": _breaks(trace), "memory": _memory(trace)},
        command=" ".join(trace.run.command),
        kinds=kinds,
        without_steps=without_steps(trace),
        from_log=from_log(trace),
        programs=list(programs(trace)),
        number_of_compiles=number_of(trace, trace.compiles, COMPILES),
        number_of_breaks=number_of(trace, trace.graph_breaks, BREAKS),
        told_twice=told_twice(trace),
        sections={section.key: section for section in sections},
        first=[section for section in sections if section.key in _FIRST],
        last=[section for section in sections if section.key not in _FIRST | _DRAWN],
    )


def _begin(trace: Trace) -> Json:
    """What the page and the summary begin with."""
    words = {"headline": clauses(trace), "head": head(trace), "ended": list(how_it_ended(trace))}
    figures = [_figures(trace, cost) for cost in trace.cost[:_MAX_KINDS]]
    return words | {"figures": figures, "waterfalls": _waterfalls(trace)}


def _findings(trace: Trace) -> Json:
    """The findings of the page: those that show without a click, the further ones, and words for all others."""
    heads, others = _alike(trace)
    shown = heads[:_MAX_FINDINGS]
    shown += [_finding(trace, row) for row in others[: _MAX_FINDINGS - len(shown)]]
    alone = min(len(heads), _OPEN_FINDINGS)
    why = unknown(trace, RECOMPILES) or unknown(trace, BREAKS)
    nothing = f"Not known: {why}." if why else "Nothing: no recompile, no graph break, nothing hidden."
    more = _rest(others[max(0, _MAX_FINDINGS - len(heads)) :])
    rows = {"findings": shown[:alone], "further_findings": shown[alone:]}
    return rows | {"nothing_found": nothing, "more_findings": more}


def summary(trace: Trace) -> str:
    """The most of it as a piece of HTML, without scripts, for a page that is somebody else's."""
    heads, _ = _alike(trace)
    shown = {head.row.id for head in heads[:_SUMMARY_FINDINGS]}
    # the sheet is the page's: what it says of the whole page it says of the piece
    return rendered(
        "summary.html",
        **_begin(trace),
        style=style(trace.vocabulary).replace(":root", ":scope"),
        findings=heads[:_SUMMARY_FINDINGS],
        more_findings=_rest([row for row in trace.findings if row.id not in shown]),
        unobserved=[section for section in document(trace).sections if section.key == "unobserved"],
    )


# --- the figures at the top ---------------------------------------------------------------------------------------


def _figures(trace: Trace, cost: Cost) -> tuple[str, list[tuple[str, str, str]]]:
    """What one kind of step comes to, in a few large figures: its title; label, value and note of each."""
    first = cost.first_step
    largest = max(first.phases, key=lambda row: row.ns, default=None)
    note = f"{percent(largest.share)} {trace.vocabulary.phase(largest.phase)}" if largest else ""
    rows = [("First step", duration(first.wall_ns), note)]
    own = _steps(trace, cost.process, cost.name)
    by_kind = {(row.process, row.name): row for row in trace.settling if row.by == "step"}
    settled = by_kind.get((cost.process, cost.name))
    if settled is not None:
        after = f"{duration(cost.time_to_settled_ns)} after the process began" if cost.time_to_settled_ns else ""
        one = unit(own[0])
        value = f"{one} {settled.settled_at_step}" if settled.verdict == "settled" else verdict(settled, len(own), one)
        if settled.verdict == "not_observable":
            value, after = "not known", settled.why or ""
        rows.append(("Settled at", value, after))
    steady = len(own.labelled("steady"))
    if cost.steady_step_ns is not None:
        spread_ns = cost.steady_spread_ns
        spread = f"{scatter(cost.steady_step_ns, spread_ns)}, " if spread_ns is not None else ""
        rows.append(("Steady step", duration(cost.steady_step_ns), f"{spread}{count(steady, 'step')}"))
    indices = {row.index for row in own.alone()}
    again = [row for row in trace.recompiles if row.interval in indices]
    spent = f"{duration(sum(row.cost_ns for row in again))} in all" if again else "in these steps"
    rows.append(("Recompiles", number_of(trace, again, RECOMPILES, cost.process), spent))
    return _title(trace, cost.process, cost.name), rows


def _title(trace: Trace, process: int, name: str | None) -> str:
    where = f" of process {process}" if len(trace.processes) > 1 else ""
    return f"{short(name or 'step')}{where}"


def _steps(trace: Trace, process: int, name: str | None) -> Steps:
    return kinds(trace.intervals)[process, name or ""]


# --- the first run ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Line:
    """A line of the waterfall; `start` and `width` in per cent of the whole."""

    label: str
    ns: int
    share: float
    start: float
    width: float
    tone: str = ""
    note: str = ""


@dataclass(slots=True)
class _Waterfall:
    """Where the time went, from the start of a process on; each line begins where the one before it ended."""

    title: str
    lines: list[_Line]
    ticks: list[tuple[float, str]]
    rest: str
    """What came after that."""


def _waterfalls(trace: Trace) -> list[_Waterfall]:
    waterfalls = (_waterfall(trace, process.index) for process in trace.processes[:_MAX_KINDS])
    return [waterfall for waterfall in waterfalls if waterfall.lines]


def _waterfall(trace: Trace, process: int) -> _Waterfall:
    settled, stretches = until_settled(trace, process)
    at = trace.processes[process].before_trace_ns
    whole = at + sum(row.wall_ns for row in stretches) or 1
    logged = from_log(trace)
    what, own = before_the_trace(trace, process)
    lines = [] if logged else [_line("before the trace", at, whole, 0, whole, "before", what)]
    if own:
        lines.append(_line(trace.vocabulary.phase("coldstep"), own, at, at - own, whole, "coldstep"))
    for stretch in stretches:
        if stretch.wall_ns * 1000 >= whole:
            lines.append(_line(stretch.title, stretch.wall_ns, whole, at, whole))
        if stretch.wall_ns * 50 >= whole:
            lines += _phase_lines(trace, stretch, at, whole)
        at += stretch.wall_ns
    until = "until every kind of step had settled" if settled else "to the end of the run"
    where = f" of process {process}" if len(trace.processes) > 1 else ""
    span = f"by the log{where}" if logged else f"from the start of the process{where} {until}"
    return _Waterfall(f"{span}: {duration(whole)}", lines, _ticks(whole), rest_of_run(trace, process) or "")


def _phase_lines(trace: Trace, stretch: Stretch, at: int, whole: int) -> Iterator[_Line]:
    for row in stretch.rows():
        yield _line(row.label, row.ns, stretch.wall_ns, at, whole, tone(trace.vocabulary, row.name), row.note)
        at += row.ns


def _line(label: str, ns: int, of: int, at: int, whole: int, tone: str = "", note: str = "") -> _Line:
    # no line ends between a number and its unit
    note = re.sub(r"(?<=\d) (?=[µmn]?s\b)", "\u00a0", note)
    return _Line(label, ns, ns / of if of else 0, 100 * at / whole, 100 * ns / whole, tone, note)


def _ticks(whole: int) -> list[tuple[float, str]]:
    """Round times along the axis, and where they stand in per cent."""
    step = next(
        step for power in range(19) for step in (10**power, 2 * 10**power, 5 * 10**power) if whole <= step * _MAX_TICKS
    )
    return [(100 * ns / whole, duration(ns) if ns else "0") for ns in range(0, whole + 1, step)]


# --- steps --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Kind:
    """One kind of step: its bars, and the phases that they are divided into with the colours of these."""

    title: str
    about: str
    bars: list[Json]
    tones: list[tuple[str, str]]


def _kinds(trace: Trace) -> list[_Kind]:
    kinds = [(row.process, row.name) for row in trace.cost[:_MAX_KINDS]]
    cut = trace.intervals[trace.unfinished] if trace.unfinished is not None else None
    if cut is not None and (cut.process, cut.name or "") not in kinds:
        kinds.append((cut.process, cut.name or ""))
    return [_kind(trace, process, name) for process, name in kinds]


def _kind(trace: Trace, process: int, name: str) -> _Kind:
    steps = _steps(trace, process, name)
    groups = _groups(steps)
    shares = [imports_as_one(group.spent()) for group in groups]
    weights: Counter[str] = Counter()
    for row in shares:
        wall = sum(row.values()) or 1
        weights.update({phase_: ns / wall for phase_, ns in row.items()})
    del weights[UNATTRIBUTED]
    shown = [phase_ for phase_, _ in weights.most_common(_MAX_PHASES)]
    bars = []
    for group, row in zip(groups, shares, strict=True):
        labels: Counter[str] = Counter()
        for part in group.parts:
            label = "unfinished" if part.index == trace.unfinished else part.label or "not known"
            labels[label] += part.steps if isinstance(part, Alike) else 1
        walls = sorted(group.walls())
        known = [row[phase_] for phase_ in shown]
        rest = sum(row.values()) - sum(known) - row[UNATTRIBUTED]
        steps_of_bar = {"from": group[0].step, "to": group[-1].step, "labels": dict(labels)}
        times = {"ns": round(median(walls)), "low": walls[0], "high": walls[-1]}
        bars.append(steps_of_bar | times | {"phases": [*known, rest, row[UNATTRIBUTED]]})
    tones = [(cut(trace.vocabulary.phase(phase_)), tone(trace.vocabulary, phase_)) for phase_ in shown]
    tones += [("other", "other"), (trace.vocabulary.phase(UNATTRIBUTED), UNATTRIBUTED)]
    caches = disk_caches(trace, steps[0].index)
    steady = steps.labelled("steady")
    unseen = unseen_execution(trace, steps, steady) if steady else None
    inferred = inferred_from(trace, process, name)
    about = [f"{inferred[0].upper()}{inferred[1:]}."] if inferred is not None else []
    about += [f"Disk caches in step 0: {caches}."] if caches else []
    about += [f"Execution of the steady steps was {unseen}."] if unseen is not None else []
    return _Kind(_title(trace, process, name), " ".join(about), bars, tones)


def _groups(steps: Steps) -> list[Steps]:
    """The steps, each by itself; where they are too many, the first and the costliest still are, and what lies between
    these is cut into stretches of about equal length."""
    if len(steps) <= _MAX_BARS:
        return [Steps([step]) for step in steps]
    walls = steps.walls()
    alone = {0, *nlargest(_MAX_STEPS_ALONE, range(1, len(steps)), key=walls.__getitem__)}
    longest = -(-len(steps) // (_MAX_BARS - _MAX_STEPS_ALONE))
    groups: list[Steps] = []
    at = 0
    for position in (*sorted(alone), len(steps)):
        groups += [steps.part(first, min(first + longest, position)) for first in range(at, position, longest)]
        groups += [steps.part(position, position + 1)] if position < len(steps) else []
        at = position + 1
    return groups


# --- findings -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Finding:
    """A finding with what the rows it speaks of say of it."""

    row: Finding
    cost: str
    step: str
    facts: Facts
    compiles: list[tuple[str, str]]
    """Id and function of compiles that have a row in the table."""
    argument: str = ""
    before: str = ""
    after: str = ""
    like: str = ""
    """How many others are like it, and what they cost."""


def _alike(trace: Trace) -> tuple[list[_Finding], list[Finding]]:
    """The findings of which no other one is like those before, each with how many are like it; and the others."""
    causes = {row.id: row.cause for row in trace.recompiles}
    groups = alike_rows(trace.findings, False, lambda row: (kind_of_finding(row), *map(causes.get, row.refs[:1])))
    heads = []
    for first, *others in groups:
        heads.append(_finding(trace, first))
        if others:
            spent = costs(others)
            heads[-1].like = f"and {len(others)} like it{f': {spent}' if spent else ''}"
    return heads, [row for _, *others in groups for row in others]


def _finding(trace: Trace, row: Finding) -> _Finding:
    compiles = {compile_.id: compile_ for compile_ in trace.compiles}
    again = {recompile.id: recompile for recompile in trace.recompiles}
    recompile = again.get(row.refs[0]) if len(row.refs) == 1 else None
    compile = compiles.get(recompile.compile) if recompile else None
    named = [again[ref].compile if ref in again else ref for ref in row.refs][:_MAX_TEXTS]
    facts = places(trace, compile) if compile else place(trace, "at", row.location)
    cost = duration(row.cost_ns) if row.cost_ns else ""
    step = step_of(trace, row.interval) if row.interval is not None else ""
    finding = _Finding(row, cost, step, facts, [(id_, compiles[id_].function) for id_ in named if id_ in compiles])
    if recompile is not None:
        pattern = f", {recompile.pattern.replace('_', ' ')}" if recompile.pattern else ""
        facts.append(("cause", line(f"{mechanisms(recompile)}{pattern}", "cause")))
        facts += [("also", line(text)) for text in other_changes(recompile)[:_MAX_TEXTS]]
        finding.argument = recompile.argument or ""
        finding.before, finding.after = both_values(recompile)
    facts += [*evidence(row.evidence, _MAX_TEXTS), *advice(row)]
    return finding


def _at(location: Location | None) -> str:
    return f"{location.file}:{location.line}" if location else ""


def _rest(findings: list[Finding]) -> str:
    """What is said of the findings that are not shown."""
    if not findings:
        return ""
    kinds = Counter(row.kind.replace("_", " ") for row in findings)
    named = listed([f"{n} {kind}" for kind, n in kinds.most_common()])
    more = f"{count(len(findings), 'more finding')} of smaller cost: {named}"
    return f"{more}; coldstep report --format json has them all."


# --- tables -------------------------------------------------------------------------------------------------------


def _compiles(trace: Trace) -> Json:
    again = {row.compile: row for row in trace.recompiles}
    why = {row.id: again[row.id].cause if row.id in again else "first" if row.origin == "user" else ""
           for row in trace.compiles}  # fmt: skip

    def cells(row: Compile) -> list[Any]:
        begun, outcome = row.segments[0], row.outcome.replace("_", " ")
        where = _at(row.caller or row.location), step_of(trace, begun.interval), begun.start_ns
        return [row.id, short(row.function), row.stack, row.origin, *where, row.wall_ns, why[row.id], outcome]

    def kind(row: Compile) -> object:
        return row.key, row.origin, _at(row.caller), why[row.id], row.outcome

    costs = {row.id: row.wall_ns for row in trace.compiles}
    return _table(trace.compiles, costs, cells, lambda row: _about_compile(trace, row, again.get(row.id)), kind)


def _about_compile(trace: Trace, row: Compile, again: Recompile | None) -> Details:
    phases = added_up(segment.phases for segment in row.segments)
    return {
        "defined": _quoted(trace, row.location),
        "called": _quoted(trace, row.caller),
        "variant": [variant(trace, row)] if row.variant.limit and is_variant(row) else [],
        "why again": [cause(again), *again.evidence] if again else [],
        "inputs": [f"{leaf.argument}: {leaf.type}" for leaf in row.inputs or ()],
        "phases": [f"{trace.vocabulary.phase(name)} {duration(ns)}" for name, ns in phases.most_common()],
        "disk caches": [f"{CACHES.get(cache.layer, cache.layer)}: {cache.state}" for cache in row.caches],
        "nested in": [row.parent] if row.parent else [],
        "after graph break": [row.caused_by] if row.caused_by else [],
        "said": [text] if (text := trace.details[row.id].error) else [],
    }


def _breaks(trace: Trace) -> Json:
    def cells(row: GraphBreak) -> list[Any]:
        where = _at(row.location), step_of(trace, row.interval), trace.intervals[row.interval].start_ns
        kind, function = row.kind.replace("_", " "), short(row.function)
        return [row.id, kind, function, *where, row.count, len(row.compiles), row.cost_ns]

    costs = {row.id: row.cost_ns for row in trace.graph_breaks}
    return _table(trace.graph_breaks, costs, cells, lambda row: _about_break(trace, row), kind_of_break)


def _about_break(trace: Trace, row: GraphBreak) -> Details:
    return {
        "at": _quoted(trace, row.location),
        "below it": [trace.below.get(row.id, "")],
        "reason": [row.reason],
        "called from": [f"{_at(place)} in {place.function}" for place in row.stack],
        "hints": row.hints,
        "advice": [row.advice],
        "compiles": row.compiles,
    }


def _table(
    rows: Sequence[Row],
    costs: dict[str, int],
    cells: Callable[[Row], list[Any]],
    about: Callable[[Row], Details],
    kind: Callable[[Row], object],
) -> Json:
    """A table's rows, the costliest first: their cells, what is shown of each on request, and a number that those that
    are alike share, where there are many; and in words what is left out."""
    costliest = sorted(rows, key=lambda row: -costs[row.id])
    shown, cheaper = costliest[:_MAX_ROWS], [costs[row.id] for row in costliest[_MAX_ROWS:]]
    details = _details(shown, about)
    kinds = {row.id: number for number, group in enumerate(alike_rows(costliest, False, kind)) for row in group}
    more = f"{count(len(cheaper), 'cheaper row')} left out, {duration(sum(cheaper))} in all" if cheaper else ""
    full = (chain(cells(row), (details.get(row.id), kinds[row.id])) for row in shown)
    return {"rows": [list(map(as_shown, row_cells)) for row_cells in full], "more": more}


def _details(rows: Sequence[Row], about: Callable[[Row], Details]) -> dict[str, list[list[Any]]]:
    """What is shown of each row on request; for the cheapest none, where all would make the page too large."""
    by_id: dict[str, list[list[Any]]] = {}
    room = _DETAILS_CHARS
    for row in rows:
        facts = []
        for label, texts in ((label, texts) for label, texts in about(row).items() if any(texts)):
            more = [f"and {len(texts) - _MAX_TEXTS} more"] if len(texts) > _MAX_TEXTS else []
            facts.append([label, [cut(text) for text in texts[:_MAX_TEXTS]] + more])
        room -= sum(len(text) for _, texts in facts for text in texts)
        if room < 0:
            break
        by_id[row.id] = facts
    return by_id


def _cells(*cells: Any) -> list[Any]:
    return [cut(cell) if isinstance(cell, str) else cell for cell in cells]


def _left_out(costs: list[int]) -> Json:
    return {"more": f"{count(len(costs), 'cheaper row')} left out, {duration(sum(costs))} in all" if costs else ""}


def _quoted(trace: Trace, location: Location | None) -> list[str]:
    return ["".join(span.text for span in line).strip() for _, line in place(trace, "", location)]


# --- memory -------------------------------------------------------------------------------------------------------


def _memory(trace: Trace) -> list[list[int | None]]:
    """Time, resident and device memory at the end of each interval, where observed; the peak of each stretch."""
    rows = [part for part in parts(trace.intervals) if part.rss_bytes is not None or part.device_bytes is not None]
    length = -(-len(rows) // _MAX_BARS) or 1
    stretches = (rows[at : at + length] for at in range(0, len(rows), length))
    return [
        [end_ns(part[-1]), largest(row.rss_bytes for row in part), largest(row.device_bytes for row in part)]
        for part in stretches
    ]


# --- the template -------------------------------------------------------------------------------------------------
