"""Recompiles, graph breaks and other findings: the blocks of a report. Of what an answer says above, no more than what
proves it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TypeVar

from coldstep._util.figures import count, duration, listed, numbers
from coldstep._util.gathered import gathered
from coldstep.analysis.breaks import below
from coldstep.blind_spots import BREAKS, RECOMPILES
from coldstep.model import Cache, Compile, Finding, GraphBreak, Location, Recompile, Trace
from coldstep.rows.intervals import kinds
from coldstep.vocabulary import CACHES
from coldstep_viewers.report import after_ready
from coldstep_viewers.report.document import (
    GAP,
    Block,
    Cell,
    Line,
    Paragraph,
    Part,
    Span,
    Style,
    Table,
    line,
    paragraph,
)
from coldstep_viewers.report.folding import (
    alike_rows,
    costs,
    dearest_first,
    in_steps,
    kind_of_break,
    kind_of_finding,
    kind_of_recompile,
    told_once,
)
from coldstep_viewers.report.ledger import from_log
from coldstep_viewers.report.sentences import (
    cause,
    mechanisms,
    more_unseen,
    other_changes,
    step_of,
    told_twice,
    variant,
)
from coldstep_viewers.safe_text import short

Row = TypeVar("Row", Finding, GraphBreak, Finding | Recompile)
Numbers = Mapping[str, int]
"""By id, the number of the answer above that speaks of it."""
Facts = list[tuple[str, Line]]

_MAX_ROWS = 20
_MOST_BLOCKS = 4  # of rows that are put together
_MOST_NAMED = 3  # of those that have no block
_MOST_CHANGES = 3
_MOST_COMPILED = 8
_OUTCOMES = {"cache_hit": "loaded from a cache", "in_progress": "not known to have ended", "traced_only": "traced only"}
_IN_FINDINGS = ("failed", "limit")
"""The outcomes that findings are about."""


def after(trace: Trace) -> Iterator[Part]:
    """What compiled after `ready()`, and the calls that the warm-up lacks."""
    yield from (paragraph(after_ready.heading(trace, row)) for row in trace.readiness[:_MAX_ROWS])
    if lines := after_ready.warm_up(trace):
        yield paragraph("The warm-up lacks:", "strong")
        yield from (paragraph(text, "advice", 4) for text in lines[:_MAX_ROWS])
        if len(lines) > _MAX_ROWS:
            yield paragraph(f"and {len(lines) - _MAX_ROWS} more; --format json has them.", "aside", 4)
    shown = list(after_ready.violations(trace))
    for compile_, violation, why in shown[:_MAX_ROWS]:
        title = f"  {step_of(trace, compile_.segments[0].interval)}{_cost(violation.cost_ns)}"
        facts = [*place(trace, "called", compile_.caller)]
        facts.append(("cause", line(violation.cause.replace("_", " "), "cause")))
        facts.append(("differs", line(violation.differs)))
        if near := after_ready.nearest(trace, violation):
            facts.append(("nearest", line(near, "dim")))
        if why:
            facts.append(("no call", line(why, "dim")))
        yield GAP
        yield Block((Span(compile_.function, "strong"), Span(title)), facts)
    if len(shown) > _MAX_ROWS:
        yield paragraph(f"These are the {_MAX_ROWS} costliest of {len(shown)}; --format json has them all.", "aside")


def compiled(trace: Trace, every: bool) -> Iterator[Part]:
    """A row for each function and outcome, the dearest first."""
    alike = gathered(((row.function, _compiled_about(row)), row) for row in compiled_rows(trace))
    dearest = sorted(alike.items(), key=lambda item: -sum(row.wall_ns for row in item[1]))
    shown = dearest if every else dearest[:_MOST_COMPILED]
    if shown:
        yield Table("~>~", [_compiled_row(function, about, group) for (function, about), group in shown])
    if len(shown) < len(dearest):
        yield paragraph(f"and {len(dearest) - len(shown)} more; --all has them", "aside")


def compiled_rows(trace: Trace) -> list[Compile]:
    """The compiles of functions that were not compiled again, and did not fail."""
    if not from_log(trace):
        return []
    by_id = {row.id: row.key for row in trace.compiles}
    again = {by_id[row.compile] for row in trace.recompiles}
    return [row for row in trace.compiles if row.key not in again and row.outcome not in _IN_FINDINGS]


def _compiled_about(row: Compile) -> str:
    """Where the function is, how it went, and what caches on disk had."""
    place = row.location or row.caller
    where = f"{place.file}:{place.line}" if place is not None else ""
    return ", ".join(filter(None, (where, _OUTCOMES.get(row.outcome, ""), *map(_cache_answer, row.caches))))


def _cache_answer(row: Cache) -> str:
    kept = "" if row.written is None else ", stored" if row.written else ", not stored"
    why = f" ({row.why_text})" if row.written is False and row.why_text else ""
    return f"{CACHES.get(row.layer, row.layer)}: {row.state}{kept}{why}"


def _compiled_row(function: str, about: str, group: list[Compile]) -> list[Cell]:
    ns = sum(row.wall_ns for row in group)
    times = count(len(group), "time") if len(group) > 1 else ""
    took, words = duration(ns) if ns > len(group) else "", ", ".join(filter(None, (times, about)))
    return [line(function, "strong"), line(took), line(words)]


def recompiles(trace: Trace, every: bool, above: Numbers) -> Iterator[Part]:
    """A block for each, but for those that one function made again and again: they share one."""
    offenders = [finding for finding in trace.findings if _is_of_recompiles(trace, finding)]
    together = {ref for finding in offenders for ref in finding.refs}
    rows: list[Finding | Recompile] = [*offenders, *(row for row in trace.recompiles if row.id not in together)]
    rows, where = (rows, {}) if every else told_once(trace, rows)
    rows.sort(key=lambda row: -row.cost_ns)
    groups = dearest_first(alike_rows(rows, every, partial(kind_of_recompile, trace)))

    def block(row: Finding | Recompile) -> Block:
        made: Callable[..., Block] = _again if isinstance(row, Finding) else _recompile
        return made(trace, row, where.get(row.id, ""), above)

    yield from _blocks(groups, block, partial(_whose, trace), partial(_in_all, trace))
    yield from _more(trace, RECOMPILES)


def graph_breaks(trace: Trace, breaks: list[GraphBreak], every: bool, above: Numbers) -> Iterator[Part]:
    """A block for each kind of break."""
    if (twice := told_twice(trace)) is not None:
        yield paragraph(twice, "aside")
    groups = alike_rows(sorted(breaks, key=lambda row: -row.cost_ns), every, kind_of_break)
    yield from _blocks(dearest_first(groups), lambda row: _break(trace, row, every, above), _where)
    yield from _more(trace, BREAKS)


def others(trace: Trace, every: bool, above: Numbers) -> Iterator[Part]:
    """The findings that nothing else here tells."""
    rows = []
    stepped = bool(kinds(trace.intervals))
    for row in trace.findings:
        kind = trace.vocabulary.findings.get(row.kind)
        is_told = (kind is not None and kind.told) or _is_of_recompiles(trace, row)
        is_shown = is_told and (row.kind != "eager_compiles" or (row.severity == "note" and stepped))
        is_new = row.id not in above or (_more_evidence(row) and row.kind != "repeat_offender")
        rows += [row] if is_new and not is_shown else []
    groups = alike_rows(rows, every, kind_of_finding)
    yield from _blocks(groups, lambda row: _finding(trace, row, above), partial(_seen, trace))


def _blocks(
    groups: list[list[Row]],
    block: Callable[[Row], Block],
    named: Callable[[Row], str],
    summed: Callable[[list[Row]], str] | None = None,
) -> Iterator[Part]:
    """Of each group a block for the costliest, and a line for the rest of it; of the cheapest groups a line alone, but
    for what is alone of its kind. What `summed` says a group comes to stands above it."""
    for index, group in enumerate(groups):
        whole, alone = index < _MOST_BLOCKS or len(group) == 1, len(group) == 1
        if index:
            yield GAP
        if summed is not None and not alone:
            yield paragraph(summed(group), "strong")
        if whole:
            shown = block(group[0])
            yield shown if shown.facts else Paragraph(shown.title)
        if rest := group[1:] if whole else group:
            what = "like it" if whole else "of another kind"
            cost = f"; {cost}" if summed is None and (cost := costs(rest)) else ""
            yield paragraph(f"and {len(rest)} {what}: {listed(map(named, rest), _MOST_NAMED)}{cost}", indent=2)


def _more(trace: Trace, claim: str) -> Iterator[Part]:
    """That there may be more of them."""
    if (more := more_unseen(trace, claim)) is not None:
        yield paragraph(more, "aside")


# --- recompiles ---------------------------------------------------------------------------------------------------


def _in_all(trace: Trace, rows: list[Finding | Recompile]) -> str:
    """What the recompiles of one cause come to: "shape of x: 40 recompiles of 40 functions in step 1, …"."""
    ids = {id_ for row in rows for id_ in (row.refs if isinstance(row, Finding) else [row.id])}
    again = [row for row in trace.recompiles if row.id in ids]
    keys = {row.id: row.key for row in trace.compiles}
    functions = count(len({keys.get(row.compile) for row in again}), "function")
    arguments = {row.argument for row in again}
    of = f" of {arguments.pop()}" if len(arguments) == 1 and None not in arguments else ""
    cost = f", {cost}" if (cost := costs(again)) else ""
    return f"{again[0].cause}{of}: {len(again)} recompiles of {functions}{in_steps(row.step for row in again)}{cost}"


def _whose(trace: Trace, row: Finding | Recompile) -> str:
    """A recompile in a few words: "stage_1 in step 40", "stage_1 19 times"."""
    if isinstance(row, Finding):
        first = next(each for each in trace.recompiles if each.id in row.refs)
        return f"{_function(trace, first)} {count(len(row.refs), 'time')}"
    return f"{_function(trace, row)} in {step_of(trace, row.interval)}"


def _function(trace: Trace, row: Recompile) -> str:
    compiled = _compile(trace, row.compile)
    return short(compiled.function) if compiled else row.compile


def _is_of_recompiles(trace: Trace, finding: Finding) -> bool:
    """Whether a finding sums up recompiles that are much alike: less is said of each alone."""
    alike = finding.kind == "repeat_offender" and len(finding.refs) >= 2 * len(finding.evidence)
    return alike and bool({row.id for row in trace.recompiles} & {*finding.refs})


def _again(trace: Trace, finding: Finding, everywhere: str, above: Numbers) -> Block:
    """The recompiles of one function, in one block; those of several processes where they are the same."""
    refs = {*finding.refs}
    rows = [row for row in trace.recompiles if row.id in refs]
    compiled = _compile(trace, rows[-1].compile)
    steps = [row.step for row in rows if row.step is not None]
    where = f" in steps {numbers(steps)}" if steps else ""
    title = f"  {count(len(rows), 'time')}{where}{_cost(finding.cost_ns)}"
    title += f", now at variant {variant(trace, compiled)}" if compiled else ""
    head = (Span(compiled.function if compiled else "", "strong"), Span(title + _also_in(everywhere)))
    causes = [("cause" if index == 0 else "", line(text, "cause")) for index, text in enumerate(finding.evidence)]
    kinds = listed(dict.fromkeys(row.cause for row in rows))
    return _told(finding, head, above, [*places(trace, compiled), *causes], [], kinds)


def _recompile(trace: Trace, row: Recompile, everywhere: str, above: Numbers) -> Block:
    compiled = _compile(trace, row.compile)
    title = f"  {step_of(trace, row.interval)}{_cost(row.cost_ns)}"
    title += f", variant {variant(trace, compiled)}" if compiled else ""
    head = (Span(compiled.function if compiled else row.compile, "strong"), Span(title + _also_in(everywhere)))
    changes = other_changes(row)
    also: Facts = [("also", line(other)) for other in changes[:_MOST_CHANGES]]
    if len(changes) > _MOST_CHANGES:
        also.append(("", line(f"and {count(len(changes) - _MOST_CHANGES, 'more change')}")))
    facts = [*places(trace, compiled), ("cause", line(cause(row), "cause"))]
    kind = f"{mechanisms(row)}{f' of {row.argument}' if row.argument else ''}"
    # Dynamo: "0/0: n == 3.0  # return x * n  # train.py:6 in step": where that is stands in the answer
    proof = [text.partition("  # ")[0] for text in row.evidence] if row.id in above else row.evidence
    return _told(row, head, above, facts, [*also, *evidence(proof)], kind)


def _also_in(everywhere: str) -> str:
    return f", {everywhere}" if everywhere else ""


# --- graph breaks and findings ------------------------------------------------------------------------------------


def _break(trace: Trace, row: GraphBreak, every: bool, above: Numbers) -> Block:
    title = f"  in {row.function or 'a function without a name'}, {count(row.count, 'time')}"
    title += f", first seen: {step_of(trace, row.interval)}"
    empty = {each.id for each in trace.compiles if each.outcome == "skipped"}
    if made := [each for each in row.compiles if each not in empty]:
        title += f", caused {count(len(made), 'compile')}{_cost(row.cost_ns)}"
    elif row.compiles:
        title += f", after it no graph was compiled{_cost(row.cost_ns)}"
    proof: Facts = [("below", line(trace.below[row.id]))] if row.id in trace.below else []
    proof.append(("reason", line(row.reason, "cause")))
    if row.id not in above and (every or not row.advice):  # the framework's hints, where we have nothing better
        proof += [("hint", line(hint)) for hint in row.hints]
    shown = {row.reason, *row.hints, *below(trace, row.id)}
    more = (text for finding in trace.findings if row.id in finding.refs for text in finding.evidence)
    proof += evidence([text for text in more if text not in shown])
    head = (Span(row.kind.replace("_", " "), "strong"), Span(title))
    return _told(row, head, above, place(trace, "at", row.location), proof, _where(row))


def _where(row: GraphBreak) -> str:
    """A graph break in a few words: its line."""
    return f"{row.location.file}:{row.location.line}" if row.location else row.function


def _finding(trace: Trace, row: Finding, above: Numbers) -> Block:
    style: Style = "error" if row.severity == "error" else ""
    if row.id in above:
        return Block(line(f"{row.severity}: see {above[row.id]} above", style), evidence(_more_evidence(row)))
    facts = [*place(trace, "at", row.location), *evidence(row.evidence), *advice(row)]
    return Block(line(f"{row.severity}: {row.text}{_cost(row.cost_ns)}", style), facts)


def _more_evidence(row: Finding) -> list[str]:
    """What its text does not say already."""
    return [text for text in row.evidence if text not in row.text]


def _seen(trace: Trace, row: Finding) -> str:
    """A finding in a few words: where it was seen."""
    if row.location is not None:
        return f"{row.location.file}:{row.location.line}"
    return step_of(trace, row.interval) if row.interval is not None else row.text


# --- what blocks are made of --------------------------------------------------------------------------------------


def _told(
    row: Finding | GraphBreak | Recompile, title: Line, above: Numbers, facts: Facts, proof: Facts, what: str
) -> Block:
    """A block; of what an answer `above` is about `what` it is in a few words, its number, and what proves it."""
    if row.id in above:
        return Block((*title, Span(f": {what}, "), Span(f"see {above[row.id]} above", "advice")), proof)
    return Block(title, [*facts, *proof, *advice(row)])


def places(trace: Trace, row: Compile | None) -> Facts:
    """Where a function is defined, and where it was called."""
    return [*place(trace, "defined", row.location), *place(trace, "called", row.caller)] if row is not None else []


def place(trace: Trace, label: str, location: Location | None) -> Facts:
    """A place in the user's code, and its line."""
    if location is None:
        return []
    at = (Span(f"{location.file}:{location.line}"), Span(f" in {location.function}", "dim"))
    code = trace.code.get((location.file, location.line), "").strip()
    return [(label, at), *([("", line(f"    {code}", "code"))] if code else [])]


def evidence(texts: list[str], most: int = 5) -> Facts:
    """What proves it: the first of these."""
    return [("evidence" if not index else "", line(text, "dim")) for index, text in enumerate(texts[:most])]


def advice(row: Finding | GraphBreak | Recompile) -> Facts:
    """What to change."""
    return [("advice", line(row.advice, "advice"))] if row.advice else []


def _cost(ns: int) -> str:
    """What something cost; a log need not tell."""
    return f", cost {duration(ns)}" if ns else ""


def _compile(trace: Trace, compile_id: str) -> Compile | None:
    return next((row for row in trace.compiles if row.id == compile_id), None)
