"""A trace in one line: the first step's cost, whether it settled, what recompiled. Standard library only."""

from __future__ import annotations

from collections.abc import Iterator

from coldstep._util.figures import count, duration, listed, numbers, percent
from coldstep.analysis.make_finding import NO_GRAPH
from coldstep.analysis.silent_slowdowns import without_a_graph
from coldstep.analysis.unobserved import unknown, unseen_route, untraced, untraced_words
from coldstep.blind_spots import COMPILES, RECOMPILES, told_by
from coldstep.model import CollectorRow, Cost, Settling, Trace
from coldstep.pftrace.layout import NOT_TRACED
from coldstep.rows.intervals import kinds, unit
from coldstep.rows.processes import name as process
from coldstep_viewers.report.after_ready import clause
from coldstep_viewers.report.ledger import from_log
from coldstep_viewers.safe_text import plain, short

_MOST_KINDS = 4
_MOMENT_NS = 1_000  # a log of one line lasts less
_ENDED = {
    "interrupted": "interrupted (Ctrl-C)",
    "out_of_memory": "out of memory",
    "exit": "sys.exit",
    "exception": "an exception",
}


def headline(trace: Trace) -> str:
    """ "first step 21.4 s, 71 % C++ compilation; first settled at step 1; 1 recompile at step 7", per kind of step."""
    return " | ".join(clauses(trace))


def clauses(trace: Trace) -> list[str]:
    """The headline's clauses on each kind of step, then on the run as a whole; in one where there is one kind."""
    settling = {(row.process, row.name): row for row in trace.settling if row.by == "step"}
    several = len(trace.processes) > 1
    kinds = []
    for cost in trace.cost[:_MOST_KINDS]:
        words = "; ".join(_clauses(trace, cost, settling.get((cost.process, cost.name))))
        kinds.append((f"{process(trace, cost.process)} {cost.name}" if several else cost.name, words))
    cut = trace.intervals[trace.unfinished] if trace.unfinished is not None else None
    if cut is not None and (cut.process, cut.name) not in {(cost.process, cost.name) for cost in trace.cost}:
        kinds.append((cut.name or "step", f"first step not finished, at least {duration(cut.wall_ns)}"))
    many = len(kinds) > 1 or any(name != "step" for name, _ in kinds)
    parts = [f"{short(name)}: {words}" if many else words for name, words in kinds] or [_without_steps(trace)]
    if len(trace.cost) > _MOST_KINDS:
        parts.append(f"and {count(len(trace.cost) - _MOST_KINDS, 'more kind of step', 'more kinds of steps')}")
    outside = [row for row in trace.recompiles if trace.intervals[row.interval].kind != "step"]
    whole = [f"{count(len(outside), 'recompile')} outside the steps"] if outside and kinds else []
    if (after_ready := clause(trace)) is not None:
        whole.append(after_ready)
    whole += _partly(trace)
    text = " ".join([*parts, *whole])
    whole += [why for why in (unseen_route(trace), untraced_words(untraced(trace))) if why and why not in text]
    if trace.run.ended == "running" or (from_log(trace) and trace.run.ended == "killed"):
        whole.append(ending(trace))
    elif trace.run.ended != "ok":
        whole.append(f"ended: {ending(trace)}")
    if len(parts) == 1:
        parts = ["; ".join([*parts, *whole])]
    elif whole:
        parts.append("; ".join(whole))  # of no kind of step more than of another
    return [part.replace("\n", " ") for part in parts]


def _partly(trace: Trace) -> list[str]:
    """The frameworks of which compiles, or their causes, were seen only in part."""
    seen = (f"{row.name} {row.version or ''}".rstrip() for row in trace.collectors if _is_partly(row))
    return [f"{name} was observed only in part" for name in dict.fromkeys(seen)]


def _is_partly(row: CollectorRow) -> bool:
    return row.state == "partial" and COMPILES in told_by(row.name)


def ending(trace: Trace) -> str:
    """What ended a run that did not end by itself."""
    run = trace.run
    if run.ended == "running":
        return f"still running, {duration(run.wall_ns)} so far"
    if from_log(trace) and run.ended == "killed":
        return "the log breaks off"
    word = _ENDED.get(run.ended, run.ended)
    if run.error is None or run.ended in ("killed", "interrupted"):
        return word
    error = plain(run.error).removeprefix("SystemExit: ")
    if run.ended == "exit" and error.isdecimal():
        return f"{word}({error})"
    return error if run.ended in ("exception", "terminated") else f"{word} ({error})"


def verdict(row: Settling, steps: int, unit: str = "step") -> str:
    """Whether a kind of step settled, in words."""
    words = {
        "settled": f"settled at {unit} {row.settled_at_step}",
        "not_settled": f"not settled in {count(steps, unit)}",
        "too_few_steps": f"too few {unit}s to judge",
    }
    return words.get(row.verdict, f"whether it settled is not known ({row.why})")


def _clauses(trace: Trace, cost: Cost, settled: Settling | None) -> Iterator[str]:
    first = cost.first_step
    largest = max(first.phases, key=lambda row: row.ns, default=None)
    share = ""
    if largest is not None and largest.share >= 0.005:
        share = f", {percent(largest.share)} {trace.vocabulary.phase(largest.phase)}"
    one = unit(trace.intervals[first.interval])
    yield f"first {one} {duration(first.wall_ns)}{share}"
    kind = (cost.process, cost.name)
    steps = kinds(trace.intervals)[kind]
    own = {row.index for row in steps.alone()}
    recompiles = [row for row in trace.recompiles if row.interval in own]
    why = unknown(trace, RECOMPILES, cost.process)
    if settled is not None:
        since = settled.settled_at_step
        revoked = since is not None and any(row.step is not None and row.step > since for row in recompiles)
        yield f"{'first ' if revoked else ''}{verdict(settled, len(steps) - (trace.unfinished in own), one)}"
    yield from _given_up(trace, own)
    if without_a_graph(trace, cost.process) is not None:
        yield NO_GRAPH
    if recompiles:
        at = sorted({row.step for row in recompiles if row.step is not None})
        least = "at least " if why else ""
        yield f"{least}{count(len(recompiles), 'recompile')} at {one if len(at) == 1 else f'{one}s'} {numbers(at)}"
    elif why:
        is_known = settled is not None and settled.why == why
        yield f"recompiles not known{'' if is_known else f' ({why})'}"


def _given_up(trace: Trace, indices: set[int]) -> Iterator[str]:
    """What settled, or seems to, because nothing is compiled any more."""
    refused: dict[str, int | None] = {}
    for row in trace.compiles:
        if row.outcome == "limit" and row.origin == "user" and row.segments[0].interval in indices:
            refused.setdefault(row.function, trace.intervals[row.segments[0].interval].step)
    names = listed([f"{short(name)} in step {step}" for name, step in refused.items()][:_MOST_KINDS])
    if refused:
        yield f"gave up compiling {names}"


def _without_steps(trace: Trace) -> str:
    compiles = [row for row in trace.compiles if row.parent is None]
    refused = [row for row in compiles if row.outcome == "limit"]
    made = len(compiles) - len(refused)
    why = unknown(trace, COMPILES)
    here = " in this process" if any(NOT_TRACED in note for note in trace.run.notes) else ""
    nothing = f"nothing compiled{here}" if why is None else f"what compiled is not known ({why})"
    words = [duration(trace.run.wall_ns)] if trace.run.wall_ns >= _MOMENT_NS else []
    if made or not refused:
        words.append(f"{'at least ' if why else ''}{count(made, 'compile')}" if made else nothing)
    if refused:
        words.append(count(len(refused), "refused compile"))
    if trace.recompiles:
        words.append(count(len(trace.recompiles), "recompile"))
    if trace.builds:
        took = duration(sum(row.wall_ns for row in trace.builds))
        words.append(f"{count(len(trace.builds), 'build')} outside of the frameworks ({took})")
    return f"no steps marked; {', '.join(words)}"
