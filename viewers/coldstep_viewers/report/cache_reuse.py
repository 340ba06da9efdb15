"""The reuse of a run, in words: the costs that a further process pays again, and why each program was not loaded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from coldstep._util.figures import count, duration, listed, size
from coldstep._util.gathered import gathered
from coldstep.analysis.caches.advice import advice
from coldstep.analysis.caches.reuse import (
    BEFORE,
    BYPASSED,
    COSMETIC,
    GONE,
    HIT,
    MISSED,
    NEW,
    NOT_WRITTEN,
    OFF,
    SCHEMA,
    Program,
    Reuse,
    foretold,
)
from coldstep.loading.cache_folders import WHOLE, Entry
from coldstep.model import Trace
from coldstep.vocabulary import CACHES, OURS, UNWRITTEN, Vocabulary
from coldstep_viewers.report.ledger import from_log
from coldstep_viewers.safe_text import short

HOLDS_SCHEMA = "coldstep-cache-holds/1"
_FIGURES = ("wall_ns", "again_ns", "load_ns", "saved_ns", "unattributed_ns")
_MOST_NAMED = 4
_MOST_FUNCTIONS = 12
_MOST_CHARS = 160  # of one value
_LEAST_SHARE = 0.01
_WORDS = {
    MISSED: "missed",
    COSMETIC: "missed for names alone",
    NOT_WRITTEN: "never stored",
    BYPASSED: "passed by",
    OFF: "no cache",
}


def as_json(reuses: Sequence[Reuse], *, measured: bool = False) -> dict[str, Any]:
    """The document that `coldstep cache --json` prints; of several processes, the times are those of `slowest`. They
    are null where they cannot be foretold, and were not `measured` either."""
    slowest = reuses[slowest_of(reuses)]
    programs = [asdict(row) for reuse in reuses for row in reuse.programs]
    for row in programs:
        del row["origin"]
        if row["rank"] is None:
            del row["rank"]
    return {
        "schema": SCHEMA,
        "programs": programs,
        "again": [asdict(row) for row in slowest.again],
        "second_run": asdict(slowest.second_run) if measured or slowest.why is None else dict.fromkeys(_FIGURES),
    }


def slowest_of(reuses: Sequence[Reuse]) -> int:
    """Which of several processes is the slowest of those that compiled: what starts these only waits for them."""
    return max(range(len(reuses)), key=lambda at: (bool(reuses[at].programs), reuses[at].second_run.wall_ns))


def foretold_lines(path: str, reuse: Reuse, wall_ns: int, vocabulary: Vocabulary = OURS) -> Iterator[str]:
    """What a process like this one would pay if it ran now."""
    took = f"{path}: this process took {duration(wall_ns)}"
    if reuse.why is None:
        yield f"{took}; the next like it would take about {duration(reuse.second_run.wall_ns)}"
        yield from ("", "it pays again")
        yield from _ledger(reuse, vocabulary)
    else:
        yield f"{took}; what the next like it would take cannot be foretold: {reuse.why}"
    loads = [row for row in reuse.programs if row.verdict == HIT]
    if loads:
        yield from ("", f"it loads {_programs(loads)}")
    yield from _reasons([row for row in reuse.programs if row.verdict != HIT], "it compiles again")


def next_process(trace: Trace) -> list[str]:
    """For a report: what a further process like this one compiles again though its cache is on; nothing where that is
    no time to speak of."""
    if not trace.processes or from_log(trace):
        return []
    asked = {cache.layer for row in trace.compiles for cache in row.caches if row.process == 0 and cache.state != "off"}
    if not asked:
        return []
    reuse = foretold(trace)
    again = [row for row in reuse.programs if row.verdict != HIT and row.layer in asked]
    if reuse.why is not None or sum(row.cost_ns for row in again) < reuse.second_run.wall_ns * _LEAST_SHARE:
        return []
    row = trace.processes[0]
    took, next_ = duration(row.before_trace_ns + row.wall_ns), duration(reuse.second_run.wall_ns)
    first = f"this process took {took}; the next like it would take about {next_} (coldstep cache)"
    return [first, *_reasons(again, "")]


def compared_lines(earlier: str, later: str, reuses: Sequence[Reuse]) -> Iterator[str]:
    """What the later run loaded of what the earlier had compiled, and what kept it from the rest."""
    rows = [row for reuse in reuses for row in reuse.programs]
    number = Counter(row.verdict for row in rows)
    named = {HIT: "loaded"} | _WORDS | {NEW: "new", GONE: "gone"}
    verdicts = [f"{number[verdict]} {words}" for verdict, words in named.items() if number[verdict]]
    unseen = next((row.why for row in reuses if row.why is not None), None)
    nothing = f"what asked a cache is not known ({unseen})" if unseen else "neither asked a cache for anything"
    yield f"{earlier} → {later}: {', '.join(verdicts) or nothing}"
    ranks = {row.rank for row in rows} - {None}
    differ = sorted({row.rank for row in rows if row.verdict not in (HIT, GONE) and row.rank is not None})
    if len(ranks) > 1 and differ:
        yield f"not all loaded: {listed((f'rank {rank}' for rank in differ), 8)} of {len(ranks)}"
    yield from _reasons([row for row in rows if row.verdict in _WORDS], "")
    for verdict in (NEW, GONE):
        if found_so := [row for row in rows if row.verdict == verdict]:
            yield from ("", f"{verdict}: {_programs(found_so)}")


def _ledger(reuse: Reuse, vocabulary: Vocabulary) -> Iterator[str]:
    second = reuse.second_run
    least = second.wall_ns * _LEAST_SHARE
    for row in reuse.again:
        if row.ns >= least:
            yield _line(row.what if row.what == BEFORE else vocabulary.phase(row.what), row.ns, row.why)
    if small := sum(row.ns for row in reuse.again if row.ns < least):
        yield _line("smaller phases", small, "")
    if second.load_ns:
        saves = f"saves {duration(second.saved_ns)}" if second.saved_ns else ""
        yield _line("loading", second.load_ns, saves)
    yield _line("unattributed", second.unattributed_ns, "in no phase: the program's own work among it")


def _line(what: str, ns: int, why: str) -> str:
    return f"  {what:<28}{duration(ns):>10}  {why}".rstrip()


def _reasons(rows: Iterable[Program], title: str) -> Iterator[str]:
    """Those that share a reason as one, the costliest first."""
    differ = ((row, tuple((each.name, each.before, each.after) for each in row.components)) for row in rows)
    groups = gathered(
        ((row.verdict, row.layer, row.why, parts, "" if row.why else row.why_text), row) for row, parts in differ
    )
    if groups and title:
        yield from ("", title)
    for group in sorted(groups.values(), key=lambda group: -sum(row.cost_ns for row in group)):
        yield from ("", *_reason(group))


def _reason(group: list[Program]) -> Iterator[str]:
    first = max(group, key=lambda row: row.cost_ns)
    cost = sum(row.cost_ns for row in group)
    layer = CACHES.get(first.layer, first.layer)
    ranks = sorted({row.rank for row in group if row.rank is not None})
    where = f", {listed((f'rank {rank}' for rank in ranks), 8)}" if ranks else ""
    yield f"{layer}: {_WORDS[first.verdict]}{where}: {_programs(group)}, {duration(cost)}"
    for row in first.components:
        alike = row.before == row.after  # their hashes differ, what is shown of them does not
        yield f"  {row.name}: {'differs' if alike else f'{_value(row.before)} → {_value(row.after)}'}"
    if first.why_text:
        whose = f"{short(first.function)}: " if len({row.why_text for row in group}) > 1 else ""
        yield f"  {whose}{first.why_text}"
    elif first.why:
        yield f"  {UNWRITTEN.get(first.why, first.why)}"
    if fix := advice(first.layer, first.why, (each.name for each in first.components)):
        yield f"  fix: {fix}"


def _value(value: str | None) -> str:
    text = " ".join((value or "none").split())
    return text if len(text) <= _MOST_CHARS else f"{text[: _MOST_CHARS - 1]}…"


def _compiled(row: Program) -> tuple[int | None, str | None, str | None]:
    """By which compiles it is known: each layer of caches has a row of it."""
    return row.rank, row.earlier, row.later


def _programs(rows: Sequence[Program]) -> str:
    """ "train_step, init and 22 eager programs"."""
    own = [row for row in rows if row.origin not in ("eager", "library")]
    number, others = count(len({_compiled(row) for row in rows}), "program"), len(rows) - len(own)
    if not own:
        return f"{number} of eager operations and libraries"
    names = [short(name) for name in dict.fromkeys(row.function for row in own)]
    if others:
        names = [*names[:_MOST_NAMED], f"{others} of eager operations and libraries"]
    return f"{number} ({listed(names, _MOST_NAMED + 1)})"


# --- what a cache holds -------------------------------------------------------------------------------------------


def entries_as_json(entries: Sequence[Entry]) -> dict[str, Any]:
    """The document that `coldstep cache --holds --json` prints."""
    return {"schema": HOLDS_SCHEMA, "entries": [asdict(row) for row in entries]}


def entries_lines(place: str, entries: Sequence[Entry]) -> Iterator[str]:
    """What there is by layer, for which functions, and every entry that is not as it should be."""
    yield f"{place}: {count(len(entries), 'entry', 'entries')}, {size(sum(row.bytes for row in entries))}"
    layers = gathered((row.layer, row) for row in entries)
    for layer, rows in layers.items():
        names = [short(row.function) for row in rows if row.function]
        functions = f": {listed(names, _MOST_FUNCTIONS)}" if names else ""
        yield f"{CACHES.get(layer, layer)}: {len(rows)}, {size(sum(row.bytes for row in rows))}{functions}"
        for row in rows:
            if row.state != WHOLE:
                yield f"  {row.state}: {short(row.function or row.key)}: {row.why}"
