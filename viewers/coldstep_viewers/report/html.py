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
from typing import Any, TypeVar

from coldstep._util.figures import count, duration, listed, percent, scatter
from coldstep._util.gathered import added_up
from coldstep._util.median import median
from coldstep.analysis.make_finding import both_values
from coldstep.analysis.unobserved import unknown
from coldstep.blind_spots import BREAKS, COMPILES, RECOMPILES
from coldstep.model import Compile, Cost, Finding, GraphBreak, Location, Recompile, Trace
from coldstep.rows.intervals import Alike, Steps, end_ns, imports_as_one, kinds, parts, unit
from coldstep.rows.variants import is_variant
from coldstep.vocabulary import CACHES, UNATTRIBUTED
from coldstep_viewers.pages.programs_page import programs
from coldstep_viewers.pages.template import cut, rendered, scripts, style, tone
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
Row = TypeVar("Row", Compile, GraphBreak)


def page(trace: Trace) -> str:
    """The whole page."""
    kinds = _kinds(trace)
    heads, others = _alike(trace)
    findings = heads[:_MAX_FINDINGS]
    findings += [_finding(trace, row) for row in others[: _MAX_FINDINGS - len(findings)]]
    alone = min(len(heads), _OPEN_FINDINGS)
    sections = document(trace).sections
    data = {
        "kinds": [{"bars": kind.bars, "tones": kind.tones} for kind in kinds],
        "compiles": _compiles(trace),
        "breaks": _breaks(trace),
        "memory": _memory(trace),
    }
    return rendered(
        "page.html",
        trace=trace,
        style=style(trace.vocabulary),
        **scripts("page.js"),
        data=data,
        headline=clauses(trace),
        head=head(trace),
        command=" ".join(trace.run.command),
        figures=[_figures(trace, cost) for cost in trace.cost[:_MAX_KINDS]],
        waterfalls=_waterfalls(trace),
        kinds=kinds,
        without_steps=without_steps(trace),
        from_log=from_log(trace),
        findings=findings[:alone],
        nothing_found=_nothing_found(trace),
        further_findings=findings[alone:],
        more_findings=_rest(others[max(0, _MAX_FINDINGS - len(heads)) :]),
        programs=list(programs(trace)),
        number_of_compiles=number_of(trace, trace.compiles, COMPILES),
        number_of_breaks=number_of(trace, trace.graph_breaks, BREAKS),
        told_twice=told_twice(trace),
        ended=list(how_it_ended(trace)),
        sections={section.key: section for section in sections},
        first=[section for section in sections if section.key in _FIRST],
        last=[section for section in sections if section.key not in _FIRST | _DRAWN],
    )


def _nothing_found(trace: Trace) -> str:
    """What is said where there are no findings."""
    why = unknown(trace, RECOMPILES) or unknown(trace, BREAKS)
    return f"Not known: {why}." if why else "Nothing: no recompile, no graph break, nothing hidden."


def summary(trace: Trace) -> str:
    """The most of it as a piece of HTML, without scripts, for a page that is somebody else's."""
    heads, _ = _alike(trace)
    shown = {head.row.id for head in heads[:_SUMMARY_FINDINGS]}
    # the sheet is the page's: what it says of the whole page it says of the piece
    sheet = style(trace.vocabulary).replace(":root", ":scope")
    return rendered(
        "summary.html",
        style=sheet,
        headline=clauses(trace),
        head=head(trace),
        ended=list(how_it_ended(trace)),
        figures=[_figures(trace, cost) for cost in trace.cost[:_MAX_KINDS]],
        waterfalls=_waterfalls(trace),
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
        bars.append(
            {
                "from": group[0].step,
                "to": group[-1].step,
                "labels": dict(labels),
                "ns": round(median(walls)),
                "low": walls[0],
                "high": walls[-1],
                "phases": [*known, rest, row[UNATTRIBUTED]],
            }
        )
    tones = [(cut(trace.vocabulary.phase(phase_)), tone(trace.vocabulary, phase_)) for phase_ in shown]
    caches = disk_caches(trace, steps[0].index)
    steady = steps.labelled("steady")
    unseen = unseen_execution(trace, steps, steady) if steady else None
    inferred = inferred_from(trace, process, name)
    about = [f"{inferred[0].upper()}{inferred[1:]}."] if inferred is not None else []
    about += [f"Disk caches in step 0: {caches}."] if caches else []
    about += [f"Execution of the steady steps was {unseen}."] if unseen is not None else []
    return _Kind(
        title=_title(trace, process, name),
        about=" ".join(about),
        bars=bars,
        tones=[*tones, ("other", "other"), (trace.vocabulary.phase(UNATTRIBUTED), UNATTRIBUTED)],
    )


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
    named = [again[ref].compile if ref in again else ref for ref in row.refs]
    facts = places(trace, compile) if compile else place(trace, "at", row.location)
    finding = _Finding(
        row=row,
        cost=duration(row.cost_ns) if row.cost_ns else "",
        step=step_of(trace, row.interval) if row.interval is not None else "",
        facts=facts,
        compiles=[(name, compiles[name].function) for name in named[:_MAX_TEXTS] if name in compiles],
    )
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
    costliest = sorted(trace.compiles, key=lambda row: -row.wall_ns)
    details = _details(costliest[:_MAX_ROWS], lambda row: _about_compile(trace, row, again.get(row.id)))
    why = {row.id: again[row.id].cause if row.id in again else "first" if row.origin == "user" else ""
           for row in costliest}  # fmt: skip
    kinds = _numbered(costliest, lambda row: (row.key, row.origin, _at(row.caller), why[row.id], row.outcome))
    rows = [
        _cells(
            row.id,
            short(row.function),
            row.stack,
            row.origin,
            _at(row.caller or row.location),
            step_of(trace, row.segments[0].interval),
            row.segments[0].start_ns,
            row.wall_ns,
            why[row.id],
            row.outcome.replace("_", " "),
            details.get(row.id),
            kinds[row.id],
        )
        for row in costliest[:_MAX_ROWS]
    ]
    return {"rows": rows} | _left_out([row.wall_ns for row in costliest[_MAX_ROWS:]])


def _about_compile(trace: Trace, row: Compile, again: Recompile | None) -> list[list[Any]]:
    phases = added_up(segment.phases for segment in row.segments)
    facts: dict[str, list[str]] = {
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
    return [[label, texts] for label, texts in facts.items() if texts]


def _breaks(trace: Trace) -> Json:
    costliest = sorted(trace.graph_breaks, key=lambda row: -row.cost_ns)
    details = _details(costliest[:_MAX_ROWS], lambda row: _about_break(trace, row))
    kinds = _numbered(costliest, kind_of_break)
    rows = [
        _cells(
            row.id,
            row.kind.replace("_", " "),
            short(row.function),
            _at(row.location),
            step_of(trace, row.interval),
            trace.intervals[row.interval].start_ns,
            row.count,
            len(row.compiles),
            row.cost_ns,
            details.get(row.id),
            kinds[row.id],
        )
        for row in costliest[:_MAX_ROWS]
    ]
    return {"rows": rows} | _left_out([row.cost_ns for row in costliest[_MAX_ROWS:]])


def _about_break(trace: Trace, row: GraphBreak) -> list[list[Any]]:
    facts = {
        "at": _quoted(trace, row.location),
        "below it": [trace.below.get(row.id, "")],
        "reason": [row.reason],
        "called from": [f"{_at(place)} in {place.function}" for place in row.stack],
        "hints": row.hints,
        "advice": [row.advice],
        "compiles": row.compiles,
    }
    return [[label, texts] for label, texts in facts.items() if any(texts)]


def _numbered(rows: Sequence[Row], kind: Callable[[Row], object]) -> dict[str, int]:
    """A number for each row, the same for those that are alike, where there are many."""
    groups = alike_rows(rows, False, kind)
    return {row.id: number for number, group in enumerate(groups) for row in group}


def _details(rows: Sequence[Row], about: Callable[[Row], list[list[Any]]]) -> dict[str, list[list[Any]]]:
    """What is shown of each row on request; for the cheapest none, where all would make the page too large."""
    by_id: dict[str, list[list[Any]]] = {}
    room = _DETAILS_CHARS
    for row in rows:
        facts = []
        for label, texts in about(row):
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
    points: list[list[int | None]] = []
    for at in range(0, len(rows), length):
        part = rows[at : at + length]
        end = end_ns(part[-1])
        rss = max((row.rss_bytes for row in part if row.rss_bytes is not None), default=None)
        device = max((row.device_bytes for row in part if row.device_bytes is not None), default=None)
        points.append([end, rss, device])
    return points


# --- the template -------------------------------------------------------------------------------------------------
