"""What no framework reports: functions that run eagerly, calls that miss the fast path, caches that do not help."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, repeat, takewhile

from coldstep._util.figures import count, duration, listed, times
from coldstep._util.gathered import gathered
from coldstep._util.median import median
from coldstep.analysis.caches.advice import advice
from coldstep.analysis.caches.sets import in_one_order
from coldstep.analysis.make_finding import MOST_NAMED, NO_GRAPH, About, finding, kept_with, of_compile, what_changed
from coldstep.analysis.remedies.table import advice as advice_of
from coldstep.analysis.rules.jax import without_callback
from coldstep.analysis.steps.settling import unsettled
from coldstep.analysis.unobserved import unknown
from coldstep.blind_spots import COMPILES
from coldstep.model import Compile, Finding, Interval, Remedy, Trace
from coldstep.rows.intervals import Alike, Part, Steps, alone, kinds
from coldstep.vocabulary import PROFILE

_MIN_STEPS = 3  # fewer make neither a habit nor a median
_FAR_FACTOR = 10  # times a steady step: a step that takes longer waited for something
_EMPTY = "No ops traced"
_FEWER_VARIANTS = (
    "Make fewer variants: see what the function recompiled for. As a last resort raise "
    "torch._dynamo.config.recompile_limit."
)
_CALL_LATER = "Call the function only where it computes something: decide before the call, not by a return inside it."
_SPLIT = "Take what the reason names out of the function, or call another function for such inputs."
_INNER = "Compile the part that computes, the model within, instead of the code wrapped around it."
_NEW_OBJECTS = (
    "The trace does not show why: look for an object that each call makes anew, such as a reference (jax.new_ref) or a "
    "context."
)
_SAME_KINDS = "Hand in the same kinds of objects at every call: arrays of one kind, placed alike."
_WARM_CACHE = (
    "A program that is not in the cache changed since (its code, shapes, options, or the framework's version), or was "
    "never stored"
)
_JAX_STORES = ": JAX stores only what took jax_persistent_cache_min_compile_time_secs, 1 s unless set"
_OTHER_SIZES = "an entry is there, made for other sizes"
_LACKED = ("miss", "guard_miss", "unreadable")


def silent(trace: Trace) -> Iterator[Finding]:
    """All of them."""
    return chain(
        _silent_eager(trace), _no_graph(trace), _skipped_forever(trace), _fast_path_miss(trace), _cache_miss(trace)
    )


# --- eager --------------------------------------------------------------------------------------------------------


def _silent_eager(trace: Trace) -> Iterator[Finding]:
    """Functions over their limit of variants, where steps followed: what those cost can only be estimated."""
    seen: set[str] = set()
    for row in trace.compiles:
        if row.outcome != "limit" or row.key in seen or trace.details[row.id].fullgraph:
            continue
        seen.add(row.key)
        before, after = _around(trace, row)
        if not after:
            continue
        text = f"{row.function} runs eagerly wherever a call fits none of its variants; PyTorch does not report where"
        evidence = _compared(before, after, _quiet(trace, row.process))
        about = About(cost_ns=_estimate(before, after), evidence=evidence, advice=_FEWER_VARIANTS)
        yield of_compile(trace, row, "silent_eager", text, **about)


def without_a_graph(trace: Trace, process: int) -> Compile | None:
    """What torch.compile was given, where it has compiled no graph at all, though several steps ran."""
    rows = [row for row in trace.compiles if (row.process, row.stack, row.origin) == (process, "dynamo", "user")]
    steps = [each for (of, _), each in kinds(trace.intervals).items() if of == process]
    if not rows or max(map(len, steps), default=0) < _MIN_STEPS or any(row.outcome != "skipped" for row in rows):
        return None
    known = [trace.details[row.id] for row in rows]
    if any(each.entry and _EMPTY in (each.given_up or "") for each in known):  # it has a finding of its own
        return None
    return next((row for row, each in zip(rows, known, strict=True) if each.entry), rows[0])


def _no_graph(trace: Trace) -> Iterator[Finding]:
    """Programs that torch.compile leaves as they were."""
    for process in trace.processes:
        if (row := without_a_graph(trace, process.index)) is not None:
            text = f"{NO_GRAPH}: {row.function} runs eagerly"
            breaks = [each for each in trace.graph_breaks if each.process == process.index]
            reasons = [*dict.fromkeys(each.reason for each in breaks)]
            broken = next((each for each in breaks if each.compile == row.id), None)
            advice, remedies = (broken.advice, broken.remedies) if broken is not None else (_INNER, None)
            refs = [each.id for each in (row, broken) if each is not None]
            about = About(evidence=reasons, refs=refs, advice=advice, remedies=remedies)
            yield of_compile(trace, row, "silent_eager", text, **about)


def _skipped_forever(trace: Trace) -> Iterator[Finding]:
    """Functions that PyTorch has given up for good, for what one call of them did."""
    why = {row.compile: row for row in trace.recompiles}
    for row in trace.compiles:
        details = trace.details[row.id]
        if (reason := details.given_up) is None:
            continue
        lost = _variants_before(trace, row)
        if not lost and not details.entry:
            continue
        empty = _EMPTY in reason
        what = "had nothing to compile" if empty else "could not be compiled" if reason else "gave no compiled code"
        if lost:
            recompile = why.get(row.id)
            change = f" ({what_changed(recompile)})" if recompile else ""
            own = count(lost, "compiled variant")
            text = f"one call of it {what}{change}, and PyTorch then gave up all of it, its {own} included"
        elif empty:
            text = f"its first call {what}, and PyTorch never looks at it again"
        else:
            continue  # a graph break, and told as that
        before, after = _around(trace, row) if lost else ((), ())
        about = About(
            severity="error" if lost else "warning",
            cost_ns=_estimate(before, after),
            evidence=[*filter(None, [reason]), *_compared(before, after, _quiet(trace, row.process))],
            advice=_CALL_LATER if empty else _SPLIT if reason else "",
        )
        yield of_compile(trace, row, "skipped_forever", f"{row.function} runs eagerly for ever: {text}", **about)


def _variants_before(trace: Trace, row: Compile) -> int:
    """How many compiled variants of its code there were when `row` began."""
    earlier = takewhile(lambda other: other is not row, trace.compiles)
    made = (other for other in earlier if other.outcome in ("compiled", "cache_hit"))
    return sum(kept_with(trace, other) == kept_with(trace, row) for other in made)


def _around(trace: Trace, row: Compile) -> tuple[Sequence[int], Sequence[int]]:
    """The times of the steps of the same kind that compiled nothing, before and after this compile."""
    busy = unsettled(trace)
    at = trace.intervals[row.segments[0].interval]
    before, after = Steps(), Steps()
    for part in kinds(trace.intervals, trace.unfinished).get((at.process, at.name or ""), Steps()).parts:
        if part.index != at.index and part.index not in busy:
            (before if part.index < at.index else after).add(part)
    return before.walls(), after.walls()


def _estimate(before: Sequence[int], after: Sequence[int]) -> int:
    return max(0, round(median(after) - median(before)) * len(after)) if before and after else 0


def _quiet(trace: Trace, process: int) -> str:
    """The steps in which no compile began: whether something compiled in them all the same may not be known."""
    is_known = unknown(trace, COMPILES, process) is None
    return "steps that compiled nothing" if is_known else "steps that showed no compile"


def _compared(before: Sequence[int], after: Sequence[int], steps: str) -> list[str]:
    """Both medians, and what they are of."""
    if not after:
        return []
    since = f"{duration(median(after))} since (median of {len(after)})"
    if not before:
        return [f"{steps} took {since}; before there was none to compare them with"]
    return [f"an estimate: {steps} took {duration(median(before))} before (median of {len(before)}), {since}"]


# --- JAX's fast path ------------------------------------------------------------------------------------------


def _fast_path_miss(trace: Trace) -> Iterator[Finding]:
    """Calls of JAX functions that ran through Python although nothing was compiled."""
    missed = partial(finding, "fast_path_miss", severity="note")
    for (process, name), steps in kinds(trace.intervals, trace.unfinished).items():
        steady = steps.labelled("steady")
        if len(steady) < _MIN_STEPS:
            continue
        if all(part.python_dispatches for part in steady.parts) and not any(step.compiles for step in steady.alone()):
            times_ = ((part, part.steps if isinstance(part, Alike) else 1) for part in steady.parts)
            calls = chain.from_iterable(repeat(part.python_dispatches or 0, steps) for part, steps in times_)
            effects, mended = _effects(trace, process, name)
            text = (
                f"{name}: none of the {len(steady)} steady steps stayed on JAX's fast path: calls went through Python "
                f"({median(calls):g} in each step), though nothing was compiled"
            )
            advice = advice_of(mended) or _NEW_OBJECTS
            yield missed(text, at=steady[0], evidence=effects, advice=advice, how="none", remedies=mended or None)
            continue
        unseen = all(part.python_dispatches is None for part in steady.parts)
        effects, mended = _effects(trace, process, name) if unseen else ([], [])
        if effects:
            text = (
                f"{name}: calls of a function with a callback go through Python, in each of the {len(steady)} steady "
                "steps, and not JAX's fast path"
            )
            yield missed(text, at=steady[0], evidence=effects, remedies=mended)
            continue
        usual = median(steady.walls())
        for step in chain.from_iterable(_steps(part) for part in steady.parts if part.python_dispatches):
            if step.wall_ns > _FAR_FACTOR * usual and step.wall_ns > 100_000_000 and not step.compiles:
                text = (
                    f"{name}: step {step.step} took {duration(step.wall_ns)}, {step.wall_ns / usual:.0f} times a "
                    "steady step, and compiled nothing, but called JAX through Python "
                    f"{times(step.python_dispatches or 0)}: its inputs were new to the fast path"
                )
                yield missed(text, at=step, cost_ns=round(step.wall_ns - usual), advice=_SAME_KINDS)


def _steps(part: Part) -> Iterator[Interval]:
    return (row for row in part.rows() if row.kind == "step") if isinstance(part, Alike) else iter((part,))


def _effects(trace: Trace, process: int, name: str | None) -> tuple[list[str], list[Remedy]]:
    """What the programs compiled in steps of this kind do that keeps them off the fast path, and what to do."""
    indices = {i.index for i in alone(trace.intervals) if (i.kind, i.process, i.name) == ("step", process, name)}
    rows = [row for row in trace.compiles if row.segments[0].interval in indices and trace.details[row.id].effects]
    words = [f"{row.function} holds {effect}" for row in rows for effect in trace.details[row.id].effects]
    return words, without_callback(trace, rows[0]) if rows else []


# --- caches on disk -------------------------------------------------------------------------------------------


def _cache_miss(trace: Trace) -> Iterator[Finding]:
    """Programs that a cache on disk lacked though it was filled: others were there that this run had not stored."""
    missed: dict[int, dict[str, Compile]] = defaultdict(dict)
    asked = ((row, cache) for row in trace.compiles for cache in row.caches if cache.layer != PROFILE)
    layers = gathered(((row.process, cache.layer), (row, cache.state)) for row, cache in asked)
    hits: dict[int, set[str]] = defaultdict(set)
    for (process, _), lookups in layers.items():
        stored: set[str] = set()
        loaded: set[str] = set()
        misses = []
        for row, state in lookups:
            if state == "hit" and row.key not in stored:
                loaded.add(row.id)
            elif state in _LACKED:
                stored.add(row.key)
                misses.append(row)
        if loaded:
            hits[process] |= loaded
            missed[process] |= {row.id: row for row in misses if row.origin == "user"}
    for process, by_id in missed.items():
        rows = [row for row in by_id.values() if row.outcome == "compiled"]
        if not rows:
            continue
        first = rows[0]
        calls_back = any(cache.why == "host_callback" for cache in first.caches)
        mended = without_callback(trace, first) if calls_back else in_one_order(trace, first)
        text = (
            f"{listed((row.function for row in rows), MOST_NAMED)} compiled anew although a disk cache was on, and "
            f"filled: {count(len(hits[process]), 'other compile was', 'other compiles were')} loaded from it"
        )
        about = About(
            severity="note",
            cost_ns=sum(row.wall_ns for row in rows),
            evidence=[f"{row.function}: {why}" for row in rows for why in _why_missed(row)][:MOST_NAMED],
            advice=advice_of(mended) or _cure(first),
            refs=[row.id for row in rows],
            remedies=mended or None,
        )
        yield of_compile(trace, first, "cache_miss", text, **about)


def _why_missed(row: Compile) -> list[str]:
    """What the caches on disk say of a compile that they lacked, each reason once."""
    misses = (cache for cache in row.caches if cache.state != "hit")
    lacked = (cache for cache in misses if cache.written is False or cache.state != "miss")
    reasons = [cache.why_text or (_OTHER_SIZES if cache.state == "guard_miss" else "") for cache in lacked]
    others = ((name, text) for name, text in row.components.items() if text and "\n" not in text)
    reasons += [f"compiled with another {name} than most: {text}" for name, text in others]
    return list(dict.fromkeys(filter(None, reasons)))


def _cure(row: Compile) -> str:
    """What to do about it: by the reason, where one is known."""
    known = (advice(cache.layer, cache.why) for cache in row.caches if cache.state != "hit")
    return next(filter(None, known), "") or f"{_WARM_CACHE}{_JAX_STORES if row.stack == 'jax' else ''}."
