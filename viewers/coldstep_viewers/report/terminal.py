"""The report as text, for a terminal and for the log of a CI job."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from coldstep._util.figures import count, duration, listed, numbers, percent, scatter
from coldstep.analysis.breaks import below
from coldstep.analysis.make_finding import without_recompile
from coldstep.blind_spots import BREAKS, RECOMPILES
from coldstep.model import (
    UNATTRIBUTED,
    Compile,
    Cost,
    Finding,
    GraphBreak,
    Interval,
    Location,
    Recompile,
    Settling,
    SettlingCause,
    Trace,
)
from coldstep.pftrace.layout import COLLECTIVE
from coldstep.rows.intervals import Steps, alone, unit
from coldstep.rows.intervals import kinds as kinds_of
from coldstep.rows.processes import name
from coldstep.vocabulary import OURS, Vocabulary
from coldstep_viewers.report import after_ready, memory_and_ranks
from coldstep_viewers.report.answers import Head, head
from coldstep_viewers.report.answers import numbers as numbers_of
from coldstep_viewers.report.cache_reuse import next_process
from coldstep_viewers.report.folding import (
    TOLD,
    alike_rows,
    alike_steps,
    at_one_place,
    beginning,
    costs,
    dearest_first,
    kind_of_break,
    kind_of_finding,
    kind_of_recompile,
    ranged,
    spread,
    told_once,
)
from coldstep_viewers.report.headline import clauses, verdict
from coldstep_viewers.report.job_tree import is_tree, tree
from coldstep_viewers.report.ledger import Stretch, before_the_trace, from_log, rest_of_run, total, until_settled
from coldstep_viewers.report.sentences import (
    cause,
    disk_caches,
    executing,
    how_it_ended,
    inferred_from,
    more_unseen,
    never_imported,
    not_traced,
    number_of,
    other_changes,
    step_of,
    told_twice,
    unobserved,
    unseen_execution,
    variant,
    without_steps,
)
from coldstep_viewers.safe_text import plain, short

Row = TypeVar("Row", Finding, GraphBreak, Finding | Recompile)
Numbers = Mapping[str, int]
"""By id, the number of the answer above that speaks of it."""

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_SHADES = "█▓▒"  # a step's three largest phases; what is left is drawn with the next two
_SMALLER, _NAMELESS = "░", "·"
_GLUE = "\ue000"  # a space at which no line is broken, until the very end; nothing in a trace can hold it
_MAX_ROWS = 20
_MAX_CHILDREN = 8
_MAX_CAUSES = 8  # of what kept a kind of step from settling
_MOST_BLOCKS = 4  # of rows that are put together
_MOST_NAMED = 3  # of those that have no block
_MAX_RANKS = 4  # processes of a job that have a ledger of their own in the report
_MAX_CHARS = 2_000
_BAR_CHARS = 12
_PASS, _MOST_PASSES, _FEW_PASSES = "xla.pass.", 10, 3
_INSIDE = {
    "xla.codegen": "XLA: code generation",
    "xla.link": "XLA: linking",
    "xla.compile": "XLA: the rest of its compiles",
    "device.kernel": "kernels",
    "device.copy": "copies",
}


def render(trace: Trace, width: int = 100, colour: bool = False, every: bool = False) -> str:
    """The report, with `every` row by itself if that is asked for.

    `colour` adds a terminal's escape codes; nothing in the trace can add others.
    """
    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        no_color=not colour,
        markup=False,
        highlight=False,
        emoji=False,
        legacy_windows=False,
    )
    for line in _head(trace):
        console.print(line)
    console.print()
    for part in _answers(head(trace)):
        console.print(part)
    for title, section in _sections(trace, every):
        body = list(section)
        if body:
            console.print()
            console.print(_text(title, "bold"))
            console.print(Padding(Group(*body), (0, 0, 0, 2)))
    lines = out.getvalue().replace(_GLUE, " ").rstrip("\n").split("\n")
    return "\n".join(line.rstrip() for line in lines)


def _sections(trace: Trace, every: bool) -> Iterator[tuple[str, Iterable[RenderableType]]]:
    below, above = not_traced(trace), {} if every else numbers_of(trace)
    yield f"Processes below that were not traced ({len(below)})", _first_of(below, every)
    if is_tree(trace):
        yield f"Processes ({len(trace.processes)})", map(_text, tree(trace))
    else:
        yield f"Ranks ({len(trace.processes)})", map(_text, memory_and_ranks.ranks(trace))
    for process in trace.processes[:_MAX_RANKS]:
        settled, stretches = until_settled(trace, process.index)
        spent = process.before_trace_ns + sum(row.wall_ns for row in stretches)
        until = "until every kind of step had settled" if settled else "to the end of the run"
        where = f" of {name(trace, process.index)}" if len(trace.processes) > 1 else ""
        span = "by the log" if from_log(trace) else f"from the start of the process {until}"
        title = f"Where the time went, {span}: {duration(spent)}{where}"
        before = None if from_log(trace) else (process.before_trace_ns, *before_the_trace(trace, process.index))
        rest = rest_of_run(trace, process.index)
        yield title, [*_first_run(before, stretches), *([_text(rest)] if rest is not None else [])]
    yield "Steps", _steps(trace, every)
    yield "Inside XLA and on the device, while it was recorded", _inside(trace, every)
    if trace.readiness:
        yield f"After coldstep.ready() ({after_ready.number_of(trace)})", _after_ready(trace)
    recompiles, breaks = trace.recompiles, trace.graph_breaks if every else at_one_place(trace.graph_breaks)
    yield (
        f"Recompiles ({number_of(trace, recompiles, RECOMPILES)})",
        _with_more(trace, RECOMPILES, _recompiles(trace, every, above)),
    )
    broken = alike_rows(sorted(breaks, key=lambda row: -row.cost_ns), every, kind_of_break)
    blocks = _blocks(dearest_first(broken), lambda row: _break(trace, row, above), _where)
    places = f", at {count(len(breaks), 'place')}" if len(breaks) < len(trace.graph_breaks) else ""
    number = number_of(trace, trace.graph_breaks, BREAKS)
    twice = [_text(note, "italic")] if (note := told_twice(trace)) is not None else []
    yield f"Graph breaks ({number}{places})", [*twice, *_with_more(trace, BREAKS, blocks)]
    yield "Caches on disk: what the next process compiles again", map(_text, next_process(trace))
    yield "Memory", map(_text, memory_and_ranks.memory(trace, every))
    yield "What else was found", _findings(trace, every, above)
    yield (
        "Under way" if trace.run.ended == "running" else "What ended the run",
        (_text(line, "red") for line in how_it_ended(trace)),
    )
    yield "Not observed", _unobserved(trace)


def _first_of(lines: list[str], every: bool) -> Iterator[Text]:
    most = len(lines) if every else _MAX_CHILDREN
    yield from map(_text, lines[:most])
    if len(lines) > most:
        yield _text(f"and {len(lines) - most} more; --all has them", "italic")


def _head(trace: Trace) -> Iterator[RenderableType]:
    for line in clauses(trace):
        yield _text(line, "bold")
    versions = dict(trace.processes[0].versions) if trace.processes else {}
    if "tensorflow" in versions and not any(row.stack == "jax" for row in trace.compiles):
        for package in ("jax", "jaxlib"):  # which TensorFlow imports where they are installed
            versions.pop(package, None)
    about = [" ".join(trace.run.command), trace.run.started[:19].replace("T", " ")]
    about += [f"{name} {version}" for name, version in versions.items()]
    about += [] if from_log(trace) else [f"{duration(trace.run.wall_ns)} in all"]
    yield _text(" · ".join(word for word in about if word), "dim")


def _answers(shown: Head) -> Iterator[RenderableType]:
    """What to change, or that nothing needs it."""
    yield from (_text(line, "yellow") for line in shown.blind)
    yield _text(shown.title, "bold")
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, justify="right")
    table.add_column(no_wrap=True, justify="right")
    table.add_column(ratio=1, overflow="fold")
    for entry in shown.entries:
        table.add_row(_text(f"  {entry.number}"), _text(entry.cost, "bold"), _text(entry.text, "bold"))
        if entry.place:
            line = _text(entry.place)
            line.append_text(_text(f"   {entry.code}" if entry.code else "", "cyan"))
            table.add_row("", "", line)
        for sentence in entry.change:
            table.add_row("", "", _text(sentence, "green"))
    if shown.entries:
        yield table
    if shown.rest:
        yield _text(shown.rest, "dim")


# --- where the time went ------------------------------------------------------------------------------------------


def _first_run(before: tuple[int, str, int] | None, stretches: list[Stretch]) -> Iterator[RenderableType]:
    whole = (before[0] if before else 0) + sum(row.wall_ns for row in stretches) or 1
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(overflow="fold")
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(ratio=1, overflow="fold", min_width=_BAR_CHARS)
    if before is not None:
        ns, what, own = before
        table.add_row(
            _text("before the trace", "bold"),
            _text(duration(ns), "bold"),
            _text(percent(ns / whole), "bold"),
            _text(what, "dim"),
        )
        if own:
            label = f"  {OURS.phase('coldstep')}"
            table.add_row(_text(label), _text(duration(own)), _text(percent(own / ns), "dim"), _bar(own / ns))
    for stretch in stretches:
        if stretch.wall_ns * 1000 < whole:
            continue
        table.add_row(
            _text(stretch.title, "bold"),
            _text(duration(stretch.wall_ns), "bold"),
            _text(percent(stretch.wall_ns / whole), "bold"),
            "",
        )
        if stretch.wall_ns * 50 >= whole:
            for label, ns, bar in _phase_rows(stretch):
                table.add_row(
                    _text(f"  {label}"), _text(duration(ns)), _text(percent(ns / stretch.wall_ns), "dim"), bar
                )
    if table.row_count:
        yield table


def _phase_rows(stretch: Stretch) -> Iterator[tuple[str, int, Text]]:
    """Label, nanoseconds and bar of each row."""
    for row in stretch.rows():
        bar = _bar(row.ns / stretch.wall_ns, stretch.vocabulary.colour(row.name))
        if row.note:
            bar.pad_right(_BAR_CHARS + 2 - len(bar))
            bar.append_text(_text(row.note, "italic"))
        yield row.label, row.ns, bar


def _bar(share: float, style: str = "") -> Text:
    eighths = max(1, round(share * _BAR_CHARS * 8))
    return _text("█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip(), style)


# --- steps --------------------------------------------------------------------------------------------------------


def _steps(trace: Trace, every: bool) -> Iterator[RenderableType]:
    cut = trace.intervals[trace.unfinished] if trace.unfinished is not None else None
    kinds: dict[tuple[int, str | None], Cost | None] = {(row.process, row.name): row for row in trace.cost}
    if cut is not None:
        kinds.setdefault((cut.process, cut.name), None)
    shown = list(kinds)[:_MAX_ROWS]
    if cut is not None and (cut.process, cut.name) not in shown:
        shown[-1] = cut.process, cut.name
    by_kind = kinds_of(trace.intervals, trace.unfinished)
    for index, kind in enumerate(shown):
        if index:
            yield ""
        own = by_kind.get((kind[0], kind[1] or ""), Steps())
        settled = next((row for row in trace.settling if row.by == "step" and (row.process, row.name) == kind), None)
        cost = kinds[kind]
        about = list(_about_steps(cost, own, settled)) if cost else ["the first step did not finish"]
        whose = f"{name(trace, kind[0])}, " if len(trace.processes) > 1 else ""
        yield _text(f"{whose}{short(kind[1] or 'step')}: {', '.join(about)}")
        if (inferred := inferred_from(trace, kind[0], kind[1] or "")) is not None:
            yield _text(f"  {inferred}", "dim")
        if cost and (caches := disk_caches(trace, cost.first_step.interval)):
            yield _text(f"  disk caches in step 0: {caches}", "dim")
        table = Table.grid(padding=(0, 2, 0, 0))
        for justify in ("left", "left", "right"):
            table.add_column(justify=justify, no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_column(ratio=1, overflow="fold")
        for numbers_, label, took, rows in _step_rows(
            cost, own, cut if cut and (cut.process, cut.name) == kind else None, every
        ):
            why = unseen_execution(trace, own, rows) if label == "steady" and rows else None
            bar, legend = _phase_bar(trace.vocabulary, executing(rows) or rows if why is not None else rows)
            if why is not None:
                legend.append_text(_text(f"; execution {why}", "italic"))
            table.add_row(_text(f"  {numbers_}"), _text(label), _text(took, "bold"), bar, legend)
        yield table
        if settled is not None and settled.causes:
            yield _text(f"  compiled {'or recorded ' if trace.cuda_graphs else ''}after {unit(own[0])} 0:")
            yield from (Padding(line, (0, 0, 0, 4)) for line in _unsettling(trace, settled.causes, every))
    if len(shown) < len(kinds):
        yield ""
        more = count(len(kinds) - len(shown), "more kind of step", "more kinds of steps")
        yield _text(f"and {more}; --format json has them.", "italic")
    if not kinds and not from_log(trace):
        yield _text(without_steps(trace))
    if (not kinds and not from_log(trace)) or trace.inferences:
        profilers = [stack.profiler for stack in trace.vocabulary.stacks.values()]
        if not trace.device_traces and any(
            row.name in profilers and row.state == "attached" for row in trace.collectors
        ):
            yield _text(
                "XLA's inside and the device are recorded only while a marked step is open (by JAX and torch_xla also "
                "where coldstep run infers the steps, until these seem to have settled); --device all, or "
                'trace(device="all"), records them from the start to the end.'
            )


def _unsettling(trace: Trace, causes: list[SettlingCause], every: bool) -> Iterator[Text]:
    """Why steps compiled: a line for each; where they are many, and not `every` one is asked for, for each cause."""
    if every or len(causes) <= _MAX_CAUSES:
        yield from (_text(each.text) for each in causes)
        return
    compiles = {row.id: row for row in trace.compiles}
    arguments = {row.compile: row.argument for row in trace.recompiles}
    kinds: dict[object, list[SettlingCause]] = {}
    for each in causes:
        kinds.setdefault((each.cause, arguments.get(each.compile or "") or each.cause or each.advice), []).append(each)
    for first, *others in list(kinds.values())[:_MAX_CAUSES]:
        if not others:
            yield _text(first.text)
            continue
        rows = [compiles[each.compile] for each in others if each.compile in compiles]
        functions = listed((short(row.function) for row in rows), _MOST_NAMED)
        where = _in_steps(each.step for each in others)
        cost = f"; {cost}" if (cost := ranged([row.wall_ns for row in rows])) else ""
        yield _text(f"{first.text}; and {len(others)} like it{where}{functions and f': {functions}'}{cost}")
    if rest := [each for kind in list(kinds.values())[_MAX_CAUSES:] for each in kind]:
        by_cause = Counter(each.cause or _no_recompile(compiles.get(each.compile or "")) for each in rest)
        more = listed(f"{n} ({cause})" for cause, n in by_cause.most_common())
        yield _text(f"and {len(rest)} more: {more}; --all has them", "italic")


def _no_recompile(compile_: Compile | None) -> str:
    return without_recompile(compile_) if compile_ is not None else "recorded as a CUDA graph"


def _about_steps(cost: Cost, own: Steps, settled: Settling | None) -> Iterator[str]:
    one = unit(own[0])
    yield count(len(own), one)
    if settled is not None:
        yield verdict(settled, len(own), one)
        if settled.warm_at_step not in (None, settled.settled_at_step):
            yield f"warm at {one} {settled.warm_at_step}"
    yield f"first {one} done {duration(cost.time_to_first_step_ns)} after process start"


def _step_rows(
    cost: Cost | None, own: Steps, cut: Interval | None, every: bool
) -> Iterator[tuple[str, str, str, Steps]]:
    """Ordinals, label, time and intervals of each row: first, second, the others that compiled, those that are alike in
    one unless `every` one is asked for; the one that the file cuts off; the steady ones."""
    for part in beginning(own):
        label = "second" if part.step == 1 and part.label in ("steady", "settling") else part.label or "not known"
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
        if len(own) > 1:
            unknown = any(part.label is None for part in own.parts)
            yield "none", "steady", "not known" if unknown else "not seen", steady
    elif cost is None or cost.steady_step_ns is None:
        yield count(len(steady), unit(steady[0])), "steady", "too few", steady
    else:
        spread_ns = cost.steady_spread_ns
        around = f" {scatter(cost.steady_step_ns, spread_ns)}" if spread_ns is not None else ""
        yield count(len(steady), unit(steady[0])), "steady", f"{duration(cost.steady_step_ns)}{around}", steady


def _phase_bar(vocabulary: Vocabulary, rows: Steps) -> tuple[Text, Text]:
    """A bar for the phases of `rows`, and its legend."""
    shares = total(rows.parts)
    wall = sum(shares.values())
    nameless = shares.pop(UNATTRIBUTED, 0)
    largest = sorted(shares.items(), key=lambda row: -row[1])
    words = vocabulary.phase, vocabulary.colour
    shown = [(words[0](name), ns, shade, words[1](name)) for (name, ns), shade in zip(largest, _SHADES, strict=False)]
    shown.append(("other", sum(ns for _, ns in largest[len(_SHADES) :]), _SMALLER, ""))
    shown.append((vocabulary.phase(UNATTRIBUTED), nameless, _NAMELESS, vocabulary.colour(UNATTRIBUTED)))
    bar, legend = Text(), Text()
    reached = cells = 0
    for label, ns, shade, style in shown:
        reached += ns
        new = round(_BAR_CHARS * reached / wall) - cells if wall else 0
        cells += new
        bar.append(shade * new, style)
        if wall and ns * 100 >= wall:
            legend.append(", " if legend else "")
            legend.append(shade, style)
            legend.append(f" {plain(label)} {percent(ns / wall)}".replace(" ", _GLUE))
    return bar, legend


# --- inside XLA ---------------------------------------------------------------------------------------------------


def _inside(trace: Trace, every: bool) -> Iterator[RenderableType]:
    spent = Counter[str]()
    for interval in alone(trace.intervals):
        spent.update(interval.inside)
    passes = {name.removeprefix(_PASS): ns for name, ns in spent.items() if name.startswith(_PASS)}
    rows = [(title, spent[name]) for name, title in _INSIDE.items()]
    collectives = {name.removeprefix(COLLECTIVE): ns for name, ns in spent.items() if name.startswith(COLLECTIVE)}
    rows += [(f"in {name}, waiting included", ns) for name, ns in collectives.items()]
    rows.insert(1, (f"XLA: {count(len(passes), 'kind of pass', 'kinds of passes')}", sum(passes.values())))
    costliest = [(f"  {name}", ns) for name, ns in sorted(passes.items(), key=lambda row: -row[1])]
    costliest = costliest[: _MOST_PASSES if every else _FEW_PASSES]
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(overflow="fold")
    table.add_column(justify="right", no_wrap=True)
    for title, ns in [*rows[:2], *costliest, *rows[2:]]:
        if ns:
            table.add_row(_text(title), _text(duration(ns)))
    if table.row_count:
        yield table
        yield _text("Threads work side by side: these times may add up to more than the steps took.", "dim")
    for (_, source), row in trace.device_traces.items():
        dropped = f", {row.dropped:,} older ones dropped" if row.dropped else ""
        where = f"{row.slices:,} slices{dropped}, in their place to within {duration(row.clock_bound_ns)}"
        yield _text(f"profiler {source}: {where}", "dim")


# --- after ready --------------------------------------------------------------------------------------------------


def _after_ready(trace: Trace) -> Iterator[RenderableType]:
    yield from (_text(after_ready.heading(trace, row)) for row in trace.readiness[:_MAX_ROWS])
    if lines := after_ready.warm_up(trace):
        yield _text("The warm-up lacks:", "bold")
        yield from (Padding(_text(line, "green"), (0, 0, 0, 4)) for line in lines[:_MAX_ROWS])
        if len(lines) > _MAX_ROWS:
            yield _text(f"    and {len(lines) - _MAX_ROWS} more; --format json has them.", "italic")
    shown = list(after_ready.violations(trace))
    for compile_, violation, why in shown[:_MAX_ROWS]:
        title = _text(compile_.function, "bold")
        title.append_text(_text(f"  {step_of(trace, compile_.segments[0].interval)}{_cost(violation.cost_ns)}"))
        lines_ = [*_place(trace, "called", compile_.caller)]
        lines_.append(("cause", _text(violation.cause.replace("_", " "), "yellow")))
        lines_.append(("differs", _text(violation.differs)))
        if near := after_ready.nearest(trace, violation):
            lines_.append(("nearest", _text(near, "dim")))
        if why:
            lines_.append(("no call", _text(why, "dim")))
        yield ""
        yield _block(title, lines_)
    if len(shown) > _MAX_ROWS:
        yield _text(f"These are the {_MAX_ROWS} costliest of {len(shown)}; --format json has them all.", "italic")


# --- recompiles, graph breaks -------------------------------------------------------------------------------------


def _blocks(
    groups: list[list[Row]],
    block: Callable[[Row], RenderableType],
    named: Callable[[Row], str],
    summed: Callable[[list[Row]], str] | None = None,
) -> Iterator[RenderableType]:
    """Of each group a block for the costliest, and a line for the rest of it; of the cheapest groups a line alone, but
    for what is alone of its kind. What `summed` says a group comes to stands above it."""
    for index, group in enumerate(groups):
        whole, alone = index < _MOST_BLOCKS or len(group) == 1, len(group) == 1
        if index:
            yield ""
        if summed is not None and not alone:
            yield _text(summed(group), "bold")
        if whole:
            yield block(group[0])
        if rest := group[1:] if whole else group:
            what = "like it" if whole else "of another kind"
            cost = f"; {cost}" if summed is None and (cost := costs(rest)) else ""
            line = _text(f"and {len(rest)} {what}: {listed(map(named, rest), _MOST_NAMED)}{cost}")
            yield Padding(line, (0, 0, 0, 2))
    if any(len(group) > 1 for group in groups):
        yield ""
        yield _text(TOLD, "italic")


def _with_more(trace: Trace, claim: str, blocks: Iterable[RenderableType]) -> Iterator[RenderableType]:
    """The blocks, and behind them that there may be more."""
    yield from blocks
    if (more := more_unseen(trace, claim)) is not None:
        yield _text(more, "italic")


def _recompiles(trace: Trace, every: bool, above: Numbers) -> Iterator[RenderableType]:
    """A block for each, but for those that one function made again and again: they share one."""
    offenders = [finding for finding in trace.findings if _is_of_recompiles(trace, finding)]
    together = {ref for finding in offenders for ref in finding.refs}
    rows: list[Finding | Recompile] = [*offenders, *(row for row in trace.recompiles if row.id not in together)]
    rows, where = (rows, {}) if every else told_once(trace, rows)
    rows.sort(key=lambda row: -row.cost_ns)
    groups = alike_rows(rows, every, lambda row: kind_of_recompile(trace, row))
    yield from _blocks(
        dearest_first(groups),
        lambda row: (
            _again(trace, row, where.get(row.id, ""), above)
            if isinstance(row, Finding)
            else _recompile(trace, row, where.get(row.id, ""), above)
        ),
        lambda row: _whose(trace, row),
        lambda rows: _in_all(trace, rows),
    )


def _in_all(trace: Trace, rows: list[Finding | Recompile]) -> str:
    """What the recompiles of one cause come to: "shape of x: 40 recompiles of 40 functions in step 1, …"."""
    ids = {id_ for row in rows for id_ in (row.refs if isinstance(row, Finding) else [row.id])}
    again = [row for row in trace.recompiles if row.id in ids]
    keys = {row.id: row.key for row in trace.compiles}
    functions = count(len({keys.get(row.compile) for row in again}), "function")
    arguments = {row.argument for row in again}
    of = f" of {arguments.pop()}" if len(arguments) == 1 and None not in arguments else ""
    cost = f", {cost}" if (cost := costs(again)) else ""
    return f"{again[0].cause}{of}: {len(again)} recompiles of {functions}{_in_steps(row.step for row in again)}{cost}"


def _in_steps(ordinals: Iterable[int | None]) -> str:
    """Where something was: " in step 1", " in steps 2-6"; nothing where in no step."""
    steps = {step for step in ordinals if step is not None}
    return f" in step{'s' if len(steps) > 1 else ''} {numbers(steps)}" if steps else ""


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


def _again(trace: Trace, finding: Finding, everywhere: str, above: Numbers) -> RenderableType:
    """The recompiles of one function, in one block; those of several processes where they are the same."""
    refs = {*finding.refs}
    rows = [row for row in trace.recompiles if row.id in refs]
    compiled = _compile(trace, rows[-1].compile)
    title = _text(compiled.function if compiled else "", "bold")
    steps = [row.step for row in rows if row.step is not None]
    where = f" in steps {numbers(steps)}" if steps else ""
    title.append_text(_text(f"  {count(len(rows), 'time')}{where}{_cost(finding.cost_ns)}"))
    if compiled:
        title.append_text(_text(f", now at variant {variant(trace, compiled)}"))
    title.append_text(_text(f", {everywhere}" if everywhere else ""))
    lines = [*_places(trace, compiled)]
    lines += [("cause" if index == 0 else "", _text(text, "yellow")) for index, text in enumerate(finding.evidence)]
    return _block(title, [*lines, *_advice(finding, above)])


def _recompile(trace: Trace, row: Recompile, everywhere: str, above: Numbers) -> RenderableType:
    compiled = _compile(trace, row.compile)
    where = step_of(trace, row.interval)
    title = _text(f"{compiled.function if compiled else row.compile}", "bold")
    title.append_text(_text(f"  {where}{_cost(row.cost_ns)}"))
    if compiled:
        title.append_text(_text(f", variant {variant(trace, compiled)}"))
    title.append_text(_text(f", {everywhere}" if everywhere else ""))
    lines = [*_places(trace, compiled)]
    lines.append(("cause", _text(cause(row), "yellow")))
    others = other_changes(row)
    lines += [("also", _text(other)) for other in others[:3]]
    if len(others) > 3:
        lines.append(("", _text(f"and {count(len(others) - 3, 'more change')}")))
    lines += _evidence(row.evidence)
    lines += _advice(row, above)
    return _block(title, lines)


def _break(trace: Trace, row: GraphBreak, above: Numbers) -> RenderableType:
    title = _text(row.kind.replace("_", " "), "bold")
    title.append_text(_text(f"  in {row.function or 'a function without a name'}, {count(row.count, 'time')}"))
    title.append_text(_text(f", first seen: {step_of(trace, row.interval)}"))
    empty = {each.id for each in trace.compiles if each.outcome == "skipped"}
    if made := [each for each in row.compiles if each not in empty]:
        title.append_text(_text(f", caused {count(len(made), 'compile')}{_cost(row.cost_ns)}"))
    elif row.compiles:
        title.append_text(_text(f", after it no graph was compiled{_cost(row.cost_ns)}"))
    lines = [*_place(trace, "at", row.location)]
    if row.id in trace.below:
        lines.append(("below", _text(trace.below[row.id])))
    lines.append(("reason", _text(row.reason, "yellow")))
    lines += [("hint", _text(hint)) for hint in row.hints]
    shown = {row.reason, *row.hints, *below(trace, row.id)}
    more = (text for finding in trace.findings if row.id in finding.refs for text in finding.evidence)
    lines += _evidence([text for text in more if text not in shown])
    lines += _advice(row, above)
    return _block(title, lines)


def _where(row: GraphBreak) -> str:
    """A graph break in a few words: its line."""
    return f"{row.location.file}:{row.location.line}" if row.location else row.function


def _places(trace: Trace, row: Compile | None) -> Iterator[tuple[str, Text]]:
    if row is not None:
        yield from _place(trace, "defined", row.location)
        yield from _place(trace, "called", row.caller)


def _place(trace: Trace, label: str, location: Location | None) -> Iterator[tuple[str, Text]]:
    if location is None:
        return
    yield label, _text(f"{location.file}:{location.line}").append_text(_text(f" in {location.function}", "dim"))
    code = trace.code.get((location.file, location.line), "").strip()
    if code:
        yield "", _text(f"    {code}", "cyan")


def _evidence(texts: list[str]) -> list[tuple[str, Text]]:
    return [("evidence" if index == 0 else "", _text(text, "dim")) for index, text in enumerate(texts[:5])]


def _advice(row: Finding | GraphBreak | Recompile, above: Numbers) -> list[tuple[str, Text]]:
    """What to change; where that stands above, its number there."""
    if row.id in above:
        return [("advice", _text(f"{above[row.id]} above", "green"))]
    return [("advice", _text(row.advice, "green"))] if row.advice else []


def _block(title: Text, lines: Iterable[tuple[str, Text]]) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(ratio=1, overflow="fold")
    for label, text in lines:
        table.add_row(_text(f"  {label}", "dim"), text)
    return Group(title, table)


# --- the rest -----------------------------------------------------------------------------------------------------


def _findings(trace: Trace, every: bool, above: Numbers) -> Iterator[RenderableType]:
    rows = []
    stepped = bool(kinds_of(trace.intervals))
    for row in trace.findings:
        kind = trace.vocabulary.findings.get(row.kind)
        is_shown = (kind is not None and kind.told) or _is_of_recompiles(trace, row)
        if is_shown and (row.kind != "eager_compiles" or (row.severity == "note" and stepped)):
            continue
        if row.id not in above or (row.evidence and row.kind != "repeat_offender"):
            rows.append(row)
    groups = alike_rows(rows, every, kind_of_finding)
    yield from _blocks(groups, lambda row: _finding(trace, row, above), lambda row: _seen(trace, row))


def _finding(trace: Trace, row: Finding, above: Numbers) -> RenderableType:
    lines = [*_place(trace, "at", row.location), *_evidence(row.evidence), *_advice(row, above)]
    title = f"{row.severity}: {row.text}{_cost(row.cost_ns)}"
    return _block(_text(title, "red" if row.severity == "error" else ""), lines)


def _seen(trace: Trace, row: Finding) -> str:
    """A finding in a few words: where it was seen."""
    if row.location is not None:
        return f"{row.location.file}:{row.location.line}"
    return step_of(trace, row.interval) if row.interval is not None else row.text


def _unobserved(trace: Trace) -> Iterator[RenderableType]:
    for text in dict.fromkeys(unobserved(trace)):  # many processes lack the same
        table = Table.grid(padding=(0, 1, 0, 0))
        table.add_row("-", _text(text))
        yield table
    if absent := never_imported(trace):
        yield _text(f"never imported: {listed(absent)}", "dim")


def _cost(ns: int) -> str:
    """What something cost; a log need not tell."""
    return f", cost {duration(ns)}" if ns else ""


def _compile(trace: Trace, compile_id: str) -> Compile | None:
    return next((row for row in trace.compiles if row.id == compile_id), None)


def _text(text: str, style: str = "") -> Text:
    return Text(plain(text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]}…"), style)
