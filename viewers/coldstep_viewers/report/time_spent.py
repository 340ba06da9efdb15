"""Where the time went until all had settled, and what the steps took: two sections of a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from coldstep._util.figures import count, duration, listed, percent, scatter
from coldstep._util.gathered import gathered
from coldstep.analysis.make_finding import without_recompile
from coldstep.model import UNATTRIBUTED, Compile, Cost, Interval, Settling, SettlingCause, Trace
from coldstep.rows.intervals import Steps, unit
from coldstep.rows.intervals import kinds as kinds_of
from coldstep.rows.processes import name
from coldstep.vocabulary import OURS, Vocabulary
from coldstep_viewers.report.document import GAP, Cell, Part, Piece, Share, Style, Table, Whole, line, paragraph
from coldstep_viewers.report.folding import alike_steps, beginning, in_steps, ranged, spread
from coldstep_viewers.report.headline import verdict
from coldstep_viewers.report.ledger import (
    Stretch,
    before_the_trace,
    from_log,
    rest_of_run,
    total,
    until_settled,
)
from coldstep_viewers.report.sentences import (
    disk_caches,
    executing,
    inferred_from,
    unseen_execution,
    without_steps,
)
from coldstep_viewers.safe_text import short

_MAX_RANKS = 4  # processes of a job that have a ledger of their own in the report
_MAX_KINDS = 20
_MAX_CAUSES = 8  # of what kept a kind of step from settling
_MOST_NAMED = 3
_LARGEST = 3  # phases of a step that are told apart in its bar
_SMALL_STRETCH, _SMALL_PHASE, _SMALL_NAMELESS = 10, 4, 10  # of the whole: what is smaller is not shown by itself
_NO_DEVICE = (
    "XLA's inside and the device are recorded only while a marked step is open (by JAX and torch_xla also where "
    "coldstep run infers the steps, until these seem to have settled); --device all, or "
    'trace(device="all"), records them from the start to the end.'
)


def ledgers(trace: Trace, every: bool) -> Iterator[tuple[str, list[Part]]]:
    """Of each process its title, and where its time went."""
    for process in trace.processes[:_MAX_RANKS]:
        settled, stretches = until_settled(trace, process.index)
        logged = from_log(trace)
        spent = process.before_trace_ns + sum(row.wall_ns for row in stretches)
        until = "until every kind of step had settled" if settled else "to the end of the run"
        where = f" of {name(trace, process.index)}" if len(trace.processes) > 1 else ""
        span = "by the log" if logged else f"from the start of the process {until}"
        before = None if logged else (process.before_trace_ns, *before_the_trace(trace, process.index))
        rows = list(_ledger(before, stretches, every))
        rest = rest_of_run(trace, process.index, folded=not every)
        parts: list[Part] = [Table("~>>*", rows)] if rows else []
        parts += [paragraph(rest)] if rest is not None else []
        yield f"Where the time went, {span}: {duration(spent)}{where}", parts


def _ledger(before: tuple[int, str, int] | None, stretches: list[Stretch], every: bool) -> Iterator[list[Cell]]:
    whole = (before[0] if before else 0) + sum(row.wall_ns for row in stretches) or 1
    if before is not None:
        ns, what, own = before
        words = what if every or not own else f"{what}; coldstep itself {duration(own)}"
        yield _stretch("before the trace", ns, whole, words)
        if own and every:
            yield _phase(OURS.phase("coldstep"), own, Share(own / ns))
    for stretch in stretches:
        if stretch.wall_ns * 1000 < whole:
            continue
        is_whole = stretch.wall_ns * (50 if every else _SMALL_STRETCH) >= whole
        yield _stretch(stretch.title, stretch.wall_ns, whole, "" if is_whole or every else stretch.in_words())
        for row in stretch.rows(folded=not every) if is_whole else ():
            note = line(row.note, "aside") if row.note else ()
            yield _phase(row.label, row.ns, Share(row.ns / stretch.wall_ns, row.name, note))


def _stretch(title: str, ns: int, whole: int, note: str) -> list[Cell]:
    words = [line(text, "strong") for text in (title, duration(ns), percent(ns / whole))]
    return [*words, line(note, "dim")]


def _phase(label: str, ns: int, share: Share) -> list[Cell]:
    return [line(f"  {label}"), line(duration(ns)), line(percent(share.share), "dim"), share]


def steps(trace: Trace, every: bool, above: set[str]) -> Iterator[Part]:
    """What each kind of step took, and why steps compiled; but for what an answer `above` is about."""
    cut = trace.intervals[trace.unfinished] if trace.unfinished is not None else None
    kinds: dict[tuple[int, str | None], Cost | None] = {(row.process, row.name): row for row in trace.cost}
    if cut is not None:
        kinds.setdefault((cut.process, cut.name), None)
    shown = list(kinds)[:_MAX_KINDS]
    if cut is not None and (cut.process, cut.name) not in shown:
        shown[-1] = cut.process, cut.name
    for index, kind in enumerate(shown):
        if index:
            yield GAP
        is_cut = cut is not None and (cut.process, cut.name) == kind
        yield from _kind(trace, kind, kinds[kind], cut if is_cut else None, every, above)
    if len(shown) < len(kinds):
        yield GAP
        more = count(len(kinds) - len(shown), "more kind of step", "more kinds of steps")
        yield paragraph(f"and {more}; --format json has them.", "aside")
    if not kinds and not from_log(trace):
        yield paragraph(without_steps(trace))
    if (not kinds and not from_log(trace)) or trace.inferences:
        profilers = [stack.profiler for stack in trace.vocabulary.stacks.values()]
        attached = any(row.name in profilers and row.state == "attached" for row in trace.collectors)
        if attached and not trace.device_traces:
            yield paragraph(
                _NO_DEVICE if every else "XLA's inside and the device were not recorded; --device all records them."
            )


def _kind(
    trace: Trace, kind: tuple[int, str | None], cost: Cost | None, cut: Interval | None, every: bool, above: set[str]
) -> Iterator[Part]:
    own = kinds_of(trace.intervals, trace.unfinished).get((kind[0], kind[1] or ""), Steps())
    settled = next((row for row in trace.settling if row.by == "step" and (row.process, row.name) == kind), None)
    about = list(_about(cost, own, settled)) if cost else ["the first step did not finish"]
    whose = f"{name(trace, kind[0])}, " if len(trace.processes) > 1 else ""
    yield paragraph(f"{whose}{short(kind[1] or 'step')}: {', '.join(about)}")
    if (inferred := inferred_from(trace, kind[0], kind[1] or "")) is not None:
        yield paragraph(inferred, "dim", 2)
    if cost and (caches := disk_caches(trace, cost.first_step.interval)):
        yield paragraph(f"disk caches in step 0: {caches}", "dim", 2)
    rows: list[list[Cell]] = []
    for numbers, label, took, of in _rows(cost, own, cut, every):
        why = unseen_execution(trace, own, of) if label == "steady" and of else None
        whole = _whole(trace.vocabulary, executing(of) or of if why is not None else of, every, why)
        rows.append([line(f"  {numbers}"), line(label), line(took, "strong"), whole])
    yield Table("<<><*", rows)
    causes = _not_above(trace, settled.causes, above) if settled is not None else []
    if causes:
        yield paragraph(f"compiled {'or recorded ' if trace.cuda_graphs else ''}after {unit(own[0])} 0:", indent=2)
        yield from (paragraph(text, style, 4) for text, style in _unsettling(trace, causes, every))


def _not_above(trace: Trace, causes: list[SettlingCause], above: set[str]) -> list[SettlingCause]:
    """The causes that no answer speaks of."""
    told = {*above, *(row.compile for row in trace.recompiles if row.id in above)}
    return [each for each in causes if each.compile not in told]


def _unsettling(trace: Trace, causes: list[SettlingCause], every: bool) -> Iterator[tuple[str, Style]]:
    """Why steps compiled: a line for each; where they are many, and not `every` one is asked for, for each cause."""
    if every or len(causes) <= _MAX_CAUSES:
        yield from ((each.text, "") for each in causes)
        return
    compiles = {row.id: row for row in trace.compiles}
    arguments = {row.compile: row.argument for row in trace.recompiles}
    about = ((arguments.get(each.compile or "") or each.cause or each.advice, each) for each in causes)
    kinds = [*gathered(((each.cause, what), each) for what, each in about).values()]
    for first, *others in kinds[:_MAX_CAUSES]:
        if not others:
            yield first.text, ""
            continue
        rows = [compiles[each.compile] for each in others if each.compile in compiles]
        functions = listed((short(row.function) for row in rows), _MOST_NAMED)
        where = in_steps(each.step for each in others)
        cost = f"; {cost}" if (cost := ranged([row.wall_ns for row in rows])) else ""
        yield f"{first.text}; and {len(others)} like it{where}{functions and f': {functions}'}{cost}", ""
    if rest := [each for kind in kinds[_MAX_CAUSES:] for each in kind]:
        by_cause = Counter(each.cause or _no_recompile(compiles.get(each.compile or "")) for each in rest)
        more = listed(f"{n} ({cause})" for cause, n in by_cause.most_common())
        yield f"and {len(rest)} more: {more}; --all has them", "aside"


def _no_recompile(compile_: Compile | None) -> str:
    return without_recompile(compile_) if compile_ is not None else "recorded as a CUDA graph"


def _about(cost: Cost, own: Steps, settled: Settling | None) -> Iterator[str]:
    one = unit(own[0])
    yield count(len(own), one)
    if settled is not None:
        yield f"{'first ' if own.labelled('recompiled') else ''}{verdict(settled, len(own), one)}"
        if settled.warm_at_step not in (None, settled.settled_at_step):
            yield f"as fast as the steady ones from {one} {settled.warm_at_step} on"
    yield f"first {one} done {duration(cost.time_to_first_step_ns)} after process start"


def _rows(cost: Cost | None, own: Steps, cut: Interval | None, every: bool) -> Iterator[tuple[str, str, str, Steps]]:
    """Ordinals, label, time and intervals of each row: first, second, the others that compiled, those that are alike in
    one unless `every` one is asked for; the one that the file cuts off; the steady ones."""
    for part in beginning(own):
        label = "second" if part.step == 1 and part.label == "settling" else part.label or "not known"
        yield f"{unit(part)} {part.step}", label, duration(part.wall_ns), Steps([part])
    for rows in alike_steps(own, every):
        one, label = unit(rows[0]), rows[0].label or "not known"
        if len(rows) == 1:
            yield f"{one} {rows[0].step}", label, duration(rows[0].wall_ns), rows
        else:
            yield f"{count(len(rows), one)}, {rows[0].step}-{rows[-1].step}", label, spread(rows.walls()), rows
    if cut is not None:
        yield f"step {cut.step}", "not finished", f"at least {duration(cut.wall_ns)}", Steps([cut])
    steady = own.labelled("steady")
    if not steady:
        unknown = any(part.label is None for part in own.parts)
        if len(own) > 1 and (every or unknown):
            yield "none", "steady", "not known" if unknown else "not seen", steady
    elif cost is None or cost.steady_step_ns is None:
        yield _counted(steady), "steady", "too few", steady
    else:
        spread_ns = cost.steady_spread_ns
        around = f" {scatter(cost.steady_step_ns, spread_ns)}" if spread_ns is not None else ""
        yield _counted(steady), "steady", f"{duration(cost.steady_step_ns)}{around}", steady


def _counted(steady: Steps) -> str:
    """How many there are beside the second step, which has a row of its own."""
    return count(len(steady) - len(beginning(steady)), unit(steady[0]))


def _whole(vocabulary: Vocabulary, rows: Steps, every: bool, unseen: str | None) -> Whole:
    """The phases of `rows`: the large ones are named, or `every` one that can be seen."""
    shares = total(rows.parts)
    wall = sum(shares.values())
    nameless = shares.pop(UNATTRIBUTED, 0)
    largest = sorted(shares.items(), key=lambda row: -row[1])
    least, least_nameless = (100, 100) if every else (_SMALL_PHASE, _SMALL_NAMELESS)
    others = sum(ns for _, ns in largest[_LARGEST:])
    pieces = [Piece(vocabulary.phase(name), ns, name, ns * least >= wall) for name, ns in largest[:_LARGEST]]
    pieces.append(Piece("other", others, "", every and others * 100 >= wall))
    pieces.append(Piece(vocabulary.phase(UNATTRIBUTED), nameless, UNATTRIBUTED, nameless * least_nameless >= wall))
    return Whole(pieces, f"execution {unseen}" if unseen is not None else "")
