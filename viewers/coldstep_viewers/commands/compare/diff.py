"""`coldstep diff`: two runs side by side, what compiles and what it costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, fields
from typing import Any

import click

from coldstep._util.figures import count, duration
from coldstep.analysis.across.run_diff import Function, FunctionChange, function_changes, summarize
from coldstep.analysis.unobserved import unknown
from coldstep.blind_spots import BREAKS, COMPILES, RECOMPILES
from coldstep.model import Compile, Cost, Trace
from coldstep.rows.variants import is_variant
from coldstep.vocabulary import PROFILE, Vocabulary
from coldstep_viewers.commands.compare.programs import show_programs
from coldstep_viewers.commands.findings import Wanted, findings
from coldstep_viewers.commands.inputs import loaded
from coldstep_viewers.commands.output import show
from coldstep_viewers.report.answers import lasted_ns
from coldstep_viewers.report.ledger import from_log
from coldstep_viewers.safe_text import short

SCHEMA = "coldstep-diff/1"

_MIN_CHANGE_NS = 50_000_000  # times are of one run each: a smaller change, or one of a tenth, says nothing
_MIN_CHANGE_SHARE = 0.1
_MAX_PHASES = 6


@click.command("diff", short_help="Two runs side by side: which function, cause, phase and graph changed.")
@click.argument("before")
@click.argument("after")
@findings("text", "json")
@click.option("--ir", "programs", is_flag=True, hidden=True, help="As in coldstep compare.")
def command(before: str, after: str, wanted: Wanted, programs: bool) -> None:
    """Show what compiles differently in AFTER, and what it costs, the largest change first.

    coldstep matches functions by name and file, so the runs may be from two commits, machines, or framework versions.
    Counts are exact; each time is from a single run.

    \b
    Example:
      coldstep diff main.pftrace branch.pftrace
      coldstep diff jax-0.9.pftrace jax-0.10.pftrace --format json
    """
    if programs:
        show_programs(before, after, wanted.format)
        return
    wanted.keep([before, after])
    old, new = loaded(before), loaded(after)
    show(lambda: _data(before, after, old, new), lambda: _lines(before, after, old, new), wanted.format)


def _lines(before: str, after: str, old: Trace, new: Trace) -> Iterator[str]:
    yield f"{before} → {after}"
    for name, (was, now) in _versions(old, new).items():
        yield f"{name} {was or 'none'} → {now or 'none'}"
    for path, trace in ((before, old), (after, new)):
        for why in _unseen(trace):
            yield f"{path} does not show all that compiled: {why}"
    yield from _unlike(old, new)
    programs, programs_now = len(_programs(old)), len(_programs(new))
    made = f"{programs} → {programs_now} programs" if programs != programs_now else count(programs, "program")
    lasted = "" if from_log(old) or from_log(new) else f", the run {_times(lasted_ns(old), lasted_ns(new))}"
    yield f"in all: {made} compiled{lasted}"
    for first, second in _steps(old, new):
        yield from ("", *_step(first, second, old, new))
    changes = function_changes(summarize(old), summarize(new))
    shown = [row for row in changes if row.counts_differ or _matters(*_costs(row))]
    for row in shown:
        yield from ("", *_function(row, new.vocabulary))
    (others, cost_ns), (others_now, cost_now_ns) = _others(old), _others(new)
    if others != others_now or _matters(cost_ns, cost_now_ns):
        yield from ("", f"eager and library programs: {others} → {others_now}, {_times(cost_ns, cost_now_ns)}")
    if len(shown) < len(changes):
        yield from ("", f"{count(len(changes) - len(shown), 'function')} as before")
    elif not changes and not [*_unseen(old), *_unseen(new)]:
        yield from ("", "neither run compiled a function of the user's own")


def _unlike(old: Trace, new: Trace) -> Iterator[str]:
    """What makes the two runs' times no measure of each other."""
    loaded_, sides = [_from_disk(trace) for trace in (old, new)], ("BEFORE", "AFTER")
    if len({n / of for n, of in loaded_ if of}) > 1:
        each = zip(sides, loaded_, strict=True)
        found = " and ".join(f"{side} {n or 'none'} of its {count(of, 'compile')}" for side, (n, of) in each)
        yield f"not comparable in time: {found} found compiled code in a disk cache (run both cold, or both warm)"
    stepped = [bool(trace.cost) for trace in (old, new)]
    if stepped[0] != stepped[1]:
        yield f"only {sides[stepped[1]]} has steps: those of the other are not marked"


def _from_disk(trace: Trace) -> tuple[int, int]:
    """How many compiles of the user's own functions found something in a disk cache, of how many."""
    rows = [row for row in trace.compiles if is_variant(row)]
    hits = [
        row.outcome == "cache_hit" or any(cache.state == "hit" and cache.layer != PROFILE for cache in row.caches)
        for row in rows
    ]
    return sum(hits), len(rows)


def _function(row: FunctionChange, vocabulary: Vocabulary) -> Iterator[str]:
    old, new = row.before, row.after
    found = new or old
    assert found is not None
    where = f"{short(found.name)} ({found.stack}{', ' if found.file else ''}{found.file})"
    if old is None or new is None:
        yield f"{where}: {'new' if new else 'gone'}, {count(found.compiles, 'compile')}, {duration(found.cost_ns)}"
        return
    compiles = f"{old.compiles} → {new.compiles} compiles"
    if old.compiles == new.compiles:
        compiles = count(new.compiles, "compile")
    yield f"{where}: {compiles}, {_times(old.cost_ns, new.cost_ns)}"
    if old.file != new.file:
        yield f"    moved from {old.file}"
    counted = ("recompiles for", old.recompiles, new.recompiles), ("graph breaks,", old.graph_breaks, new.graph_breaks)
    for label, was, now in counted:
        for kind in sorted({*was, *now}):
            if was[kind] != now[kind]:
                yield f"    {label} {kind}: {was[kind]} → {now[kind]}"
    if old.operations != new.operations:
        numbers = [", ".join(map(str, side.operations)) or "not counted" for side in (old, new)]
        yield f"    operations: {numbers[0]} → {numbers[1]}"
    yield from _phases(vocabulary, old.phases, new.phases)


def _step(was: Cost, now: Cost, old: Trace, new: Trace) -> Iterator[str]:
    steps = [_settled_at(trace, now.name) for trace in (old, new)]
    yield f"{short(now.name)}: first step {_times(was.first_step.wall_ns, now.first_step.wall_ns)}"
    if steps[0] != steps[1]:
        yield f"    settled at step: {steps[0]} → {steps[1]}"
    first = (Counter({row.phase: row.ns for row in side.first_step.phases}) for side in (was, now))
    yield from _phases(new.vocabulary, *first)


def _settled_at(trace: Trace, name: str) -> str:
    row = next((row for row in trace.settling if row.by == "step" and row.name == name), None)
    if row is None or row.verdict == "not_observable":
        return "not known"
    return "never" if row.settled_at_step is None else str(row.settled_at_step)


def _phases(vocabulary: Vocabulary, was: Counter[str], now: Counter[str]) -> Iterator[str]:
    changed = [name for name in {**now, **was} if _matters(was[name], now[name])]
    for name in sorted(changed, key=lambda name: -abs(now[name] - was[name]))[:_MAX_PHASES]:
        yield f"    {vocabulary.phase(name)}: {_times(was[name], now[name])}"


def _matters(was: int, now: int) -> bool:
    return abs(now - was) >= max(_MIN_CHANGE_NS, _MIN_CHANGE_SHARE * was)


def _costs(row: FunctionChange) -> tuple[int, int]:
    return (row.before.cost_ns if row.before else 0), (row.after.cost_ns if row.after else 0)


def _times(was: int, now: int) -> str:
    if was == now:
        return duration(now)
    sign = "+" if now > was else "-"
    return f"{duration(was)} → {duration(now)} ({sign}{duration(abs(now - was))})"


def _versions(old: Trace, new: Trace) -> dict[str, tuple[str | None, str | None]]:
    was, now = (trace.processes[0].versions for trace in (old, new))
    return {name: (was.get(name), now.get(name)) for name in {**was, **now} if was.get(name) != now.get(name)}


def _steps(old: Trace, new: Trace) -> list[tuple[Cost, Cost]]:
    """The kinds of steps that both runs have."""
    known, rows = ({row.name: row for row in reversed(trace.cost)} for trace in (old, new))
    return [(known[name], row) for name, row in rows.items() if name in known]


def _programs(trace: Trace) -> list[Compile]:
    return [row for row in trace.compiles if row.outcome != "traced_only" and not row.parent]


def _others(trace: Trace) -> tuple[int, int]:
    """How many programs were compiled that are not of the user's own functions, and what they cost."""
    rows = [row for row in _programs(trace) if row.origin in ("eager", "library")]
    return len(rows), sum(row.wall_ns for row in rows)


def _unseen(trace: Trace) -> list[str]:
    """Why counts of compiles, recompiles and graph breaks may be too low."""
    found = (unknown(trace, claim) for claim in (COMPILES, RECOMPILES, BREAKS))
    return list(dict.fromkeys(why for why in found if why))


def _data(before: str, after: str, old: Trace, new: Trace) -> dict[str, Any]:
    summaries = summarize(old), summarize(new)

    def side(row: Function | None) -> dict[str, Any] | None:
        return {each.name: getattr(row, each.name) for each in fields(row)} if row is not None else None

    def step(was: Cost, now: Cost) -> dict[str, Any]:
        settled = [{"settled_at_step": summary.settled.get(now.name)} for summary in summaries]
        first, then = asdict(was.first_step) | settled[0], asdict(now.first_step) | settled[1]
        return {"name": now.name, "before": first, "after": then}

    versions = {name: {"before": was, "after": now} for name, (was, now) in _versions(old, new).items()}
    functions = [
        {"before": side(row.before), "after": side(row.after), "cost_ns": row.cost_ns, "differs": row.counts_differ}
        for row in function_changes(*summaries)
    ]
    about: dict[str, Any] = {"schema": SCHEMA, "before": before, "after": after}
    about |= {"unseen": {"before": _unseen(old), "after": _unseen(new)}, "versions": versions}
    steps = [step(was, now) for was, now in _steps(old, new)]
    return about | {"unlike": list(_unlike(old, new)), "steps": steps, "functions": functions}
