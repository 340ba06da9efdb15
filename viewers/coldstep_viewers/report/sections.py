"""The report of a trace as a document: which sections it has, in which order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from coldstep._util.figures import count, duration, listed
from coldstep._util.gathered import added_up, summed
from coldstep.blind_spots import BREAKS, RECOMPILES
from coldstep.model import Autotuning, Build, Trace
from coldstep.pftrace.layout import COLLECTIVE
from coldstep.rows.intervals import alone
from coldstep.vocabulary import OURS, STACKS
from coldstep_viewers.report import after_ready, memory_and_ranks
from coldstep_viewers.report.answers import head, lasted_ns, numbers
from coldstep_viewers.report.cache_reuse import next_process
from coldstep_viewers.report.document import Document, Item, Part, Section, Table, line, paragraph
from coldstep_viewers.report.folding import SHORTENED, at_one_place
from coldstep_viewers.report.headline import clauses
from coldstep_viewers.report.job_tree import is_tree, tree
from coldstep_viewers.report.ledger import from_log
from coldstep_viewers.report.sentences import (
    how_it_ended,
    never_imported,
    not_traced,
    number_of,
    unobserved,
)
from coldstep_viewers.report.time_spent import ledgers, steps
from coldstep_viewers.report.what_happened import after, compiled, compiled_rows, graph_breaks, others, recompiles

_MAX_CHILDREN = 8
_MAX_BUILDS = 5
_MOST_EXPLAINED = 3
_PASS, _MOST_PASSES = "xla.pass.", 10
_INSIDE = {
    "xla.codegen": "XLA: code generation",
    "xla.link": "XLA: linking",
    "xla.compile": "XLA: the rest of its compiles",
    "device.kernel": "kernels",
    "device.copy": "copies",
}


def document(trace: Trace, every: bool = False) -> Document:
    """The report: repeated parts are put together and small ones share a line, but where `every` one is asked for."""
    written = ((key, title, list(parts)) for key, title, parts in _sections(trace, every))
    return Document(
        headline=clauses(trace),
        about=list(_about(trace)),
        head=head(trace, every),
        sections=[Section(key, title, parts) for key, title, parts in written if parts],
        vocabulary=trace.vocabulary,
        shortened="" if every else SHORTENED,
        explained=_explained(trace),
    )


def _explained(trace: Trace) -> str:
    """The command that explains the dearest causes."""
    costs = [(row.cause, row.cost_ns) for row in trace.recompiles]
    named = summed(costs + [(row.kind, row.cost_ns) for row in trace.graph_breaks])
    unnamed = {row.name for row in trace.vocabulary.causes.values()} - OURS.causes.keys() | {"unknown", "other"}
    words = [name for name, _ in named.most_common() if name not in unnamed]
    stacks = {row.stack for row in trace.compiles if row.origin == "user"} & {row.name for row in STACKS}
    only = f" --stack {OURS.stacks[stacks.pop()].packages[0]}" if len(stacks) == 1 else ""
    return f"What it means, with examples: coldstep explain {' '.join(words[:_MOST_EXPLAINED])}{only}" if words else ""


def _about(trace: Trace) -> Iterator[str]:
    """The command, the versions, and how long it took."""
    versions = dict(trace.processes[0].versions) if trace.processes else {}
    imported = {other for stack in STACKS if stack.packages[0] in versions for other in stack.imports}
    for unused in imported - {row.stack for row in trace.compiles}:
        for package in OURS.stacks[unused].packages:
            versions.pop(package, None)
    yield from filter(None, (" ".join(trace.run.command), trace.run.started[:19].replace("T", " ")))
    yield from (f"{name} {version}" for name, version in versions.items())
    if not from_log(trace):
        yield f"{duration(lasted_ns(trace))} in all"


def _sections(trace: Trace, every: bool) -> Iterator[tuple[str, str, Iterable[Part]]]:
    below, above = not_traced(trace), {} if every else numbers(trace)
    yield "below", f"Processes below that were not traced ({len(below)})", _first_of(below, every)
    if is_tree(trace):
        rows = (paragraph(text, indent=2 * depth) for depth, text in tree(trace))
        yield "ranks", f"Processes ({len(trace.processes)})", rows
    else:
        yield "ranks", f"Ranks ({len(trace.processes)})", map(paragraph, memory_and_ranks.ranks(trace))
    yield "job_ready", after_ready.job_title(trace), _job_ready(trace)
    yield from (("time", title, parts) for title, parts in ledgers(trace, every))
    yield "compiled", f"Compiled ({len(compiled_rows(trace))})", compiled(trace, every)
    yield "steps", "Steps", steps(trace, every, {*above})
    if trace.readiness:
        yield "ready", f"After coldstep.ready() ({after_ready.number_of(trace)})", after(trace)
    number = number_of(trace, trace.recompiles, RECOMPILES)
    yield "recompiles", f"Recompiles ({number})", recompiles(trace, every, above)
    breaks = trace.graph_breaks if every else at_one_place(trace.graph_breaks)
    places = f", at {count(len(breaks), 'place')}" if len(breaks) < len(trace.graph_breaks) else ""
    number = number_of(trace, trace.graph_breaks, BREAKS)
    yield "breaks", f"Graph breaks ({number}{places})", graph_breaks(trace, breaks, every, above)
    built = [(row.name, row.wall_ns, _build(row)) for row in trace.builds]
    yield "builds", f"Built outside of the frameworks ({len(built)})", _dearest(built, every)
    tuned = [(row.operation, row.compile_ns + row.timing_ns, _tuned(row)) for row in trace.autotuning]
    yield "autotuning", f"Autotuning ({len(tuned)})", _dearest(tuned, every)
    yield "caches", "Caches on disk: what the next process compiles again", map(paragraph, next_process(trace))
    yield "inside", "Inside XLA and on the device, while it was recorded", _inside(trace, every)
    yield "memory", "Memory", map(paragraph, memory_and_ranks.memory(trace, every))
    yield "findings", "What else was found", others(trace, every, above)
    ended = "Under way" if trace.run.ended == "running" else "The end" if from_log(trace) else "What ended the run"
    yield "ended", ended, (paragraph(text, "error") for text in how_it_ended(trace))
    yield "unobserved", "Not observed", _unobserved(trace)


def _job_ready(trace: Trace) -> Iterator[Part]:
    if rows := list(after_ready.job_lines(trace)):
        yield Table("~>~", [[line(name, "strong"), line(took), line(did)] for name, took, did in rows])


def _first_of(lines: list[str], every: bool) -> Iterator[Part]:
    most = len(lines) if every else _MAX_CHILDREN
    yield from map(paragraph, lines[:most])
    if len(lines) > most:
        yield paragraph(f"and {len(lines) - most} more; --all has them", "aside")


def _dearest(rows: list[tuple[str, int, str]], every: bool) -> Iterator[Part]:
    """A name, what it took, and what is said of it: the first few, and what the others come to."""
    rows.sort(key=lambda row: -row[1])
    shown = rows if every else rows[:_MAX_BUILDS]
    if shown:
        # a log may have no time of it
        cells = ((name, duration(ns) if ns else "", text) for name, ns, text in shown)
        yield Table("~>~", [[line(name, "strong"), line(took), line(text)] for name, took, text in cells])
    if len(rows) > len(shown):
        took = duration(sum(ns for _, ns, _ in rows[len(shown) :]))
        yield paragraph(f"and {len(rows) - len(shown)} more, {took}", "aside")


def _tuned(row: Autotuning) -> str:
    won = f"{row.winner} won" + (f" of {count(row.choices, 'choice')}" if row.choices else "")
    if row.gain_ns is None:
        pays = "what it gains is not known"
    elif row.gain_ns == 0:
        pays = "it gains nothing over the untuned choice"
    elif row.pays_after_calls is None:
        pays = f"{duration(row.gain_ns)} less a call as it was timed then, on processors that had other work: "
        pays += "whether it pays cannot be known"
    else:
        after = count(row.pays_after_calls, "call")
        pays = f"{duration(row.gain_ns)} less a call as it was timed then, pays after {after}"
    return f"{won}: {'known from an earlier process' if row.cached else pays}"


def _build(row: Build) -> str:
    how = {"loaded": "had been built before", "waited": "another process built it", "failed": "failed"}.get(row.state)
    place = f"{row.location.file}:{row.location.line}" if row.location is not None else ""
    return ", ".join(filter(None, (row.tool, how, place)))


def _inside(trace: Trace, every: bool) -> Iterator[Part]:
    spent = added_up(interval.inside for interval in alone(trace.intervals))
    passes = {name.removeprefix(_PASS): ns for name, ns in spent.items() if name.startswith(_PASS)}
    rows = [(title, spent[name]) for name, title in _INSIDE.items()]
    collectives = {name.removeprefix(COLLECTIVE): ns for name, ns in spent.items() if name.startswith(COLLECTIVE)}
    rows += [(f"in {name}, waiting included", ns) for name, ns in collectives.items()]
    rows.insert(1, (f"XLA: {count(len(passes), 'kind of pass', 'kinds of passes')}", sum(passes.values())))
    if every:
        costliest = sorted(passes.items(), key=lambda row: -row[1])[:_MOST_PASSES]
        rows[2:2] = [(f"  {name}", ns) for name, ns in costliest]
    shown = [(title, duration(ns)) for title, ns in rows if ns]
    if shown and every:
        yield Table("~>", [[line(title), line(took)] for title, took in shown])
        yield paragraph("Threads work side by side: these times may add up to more than the steps took.", "dim")
    elif shown:
        parts = (f"{title.removeprefix('XLA: ')} {took}" for title, took in shown)
        yield paragraph(f"{', '.join(parts)}; threads work side by side")
    for (_, source), row in trace.device_traces.items():
        dropped = f", {row.dropped:,} older ones dropped" if row.dropped else ""
        if every or dropped:
            where = f"{row.slices:,} slices{dropped}, in their place to within {duration(row.clock_bound_ns)}"
            yield paragraph(f"profiler {source}: {where}", "dim")


def _unobserved(trace: Trace) -> Iterator[Part]:
    yield from (Item(line(text)) for text in dict.fromkeys(unobserved(trace)))  # many processes lack the same
    if absent := never_imported(trace):
        yield paragraph(f"never imported: {listed(absent)}", "dim")
