"""Budgets: limits on what a trace may show, and whether it shows enough to judge."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from types import UnionType
from typing import Any

from coldstep._util.figures import count, duration, listed
from coldstep._util.gathered import gathered
from coldstep._util.median import median
from coldstep._util.slotted import field, slotted
from coldstep.analysis import cuda_graphs
from coldstep.analysis.across.run_diff import Function, Key, Summary, cause_of, confidence_of_more, key_of, summarize
from coldstep.analysis.caches.advice import advice
from coldstep.analysis.caches.reuse import Program, missed
from coldstep.analysis.make_finding import in_step, of_compile, without_recompile
from coldstep.analysis.ready.readiness import findings_of, loads_of
from coldstep.analysis.steps import eager_programs
from coldstep.analysis.steps.settling import QUIET_STEPS, unsettled
from coldstep.analysis.unobserved import HIDDEN, unseen_route, untraced, untraced_before, untraced_words
from coldstep.blind_spots import AUTOTUNING, BREAKS, CLAIMS, COMPILES, PHASES, RECOMPILES, RECORDINGS
from coldstep.errors import ColdstepError
from coldstep.model import Compile, Finding, Trace
from coldstep.rows import intervals
from coldstep.rows.processes import name as process_name
from coldstep.rows.variants import counts, is_variant
from coldstep.vocabulary import CACHES, OURS

ALL = "*"
"""In a limit per name: every name that has no limit of its own."""

FIRST_STEP = "first_step"
"""In `max_slowdown`: the first step as a whole; every other name is a phase of it."""

COMPILED, STRICT = "compiles", "strict"
"""In `ready`: whether only compiles are counted, or loads, too."""

Names = set[str] | None
"""Of what must have been seen; None stands for all."""
_READY = ("ready", "ready_builds")
_MIN_CONFIDENCE = 0.95  # how sure it must be that a time is over its limit
_MIN_TRACES = 3  # on either side: fewer cannot be that sure

_COMPILES, _BREAKS, _PHASES = "compiles", "graph breaks", "phases"
_NEEDED = {
    "max_graph_breaks": {_BREAKS},
    "max_autotune_seconds": {_PHASES},
    "max_slowdown": set[str](),
    "max_memory": set(),
    "max_device_memory": set(),
}
"""What must have been seen wholly, of a limit that does not need all compiles. A slowdown needs phases for a phase."""
_CLAIMS = {
    "max_graph_breaks": {BREAKS},
    "settle_by": {COMPILES, RECORDINGS},
    "max_autotune_seconds": {AUTOTUNING, PHASES},
    "max_memory": set[str](),
    "max_device_memory": set[str](),
}
"""Of a limit that is not on compiles and recompiles: of what the collectors must have missed nothing. A time needs
all of them to have been attached wholly."""
_OF_COMPILES = {"max_recompiles", "max_graph_breaks", "max_compiles", "max_variants", "settle_by", "forbid"}
_ERRORS = ("failed_compile", "cache_limit", "skipped_forever")
_STATES = {
    "failed": "failed during the run",
    "late": "was attached after something had compiled",
    "partial": "could not be attached wholly",
}


class BudgetError(ColdstepError, ValueError):
    """A budget that cannot be understood; the message is one clear line."""


# --- what is allowed --------------------------------------------------------------------------------------------


@slotted
class Budget:
    """What a trace may show, for each of its processes; None and empty are no limit."""

    max_recompiles: int | None = None
    """How much was compiled again."""
    max_graph_breaks: int | None = None
    """Places at which graphs broke."""
    max_compiles: dict[str, int] = field(default_factory=dict)
    """Compiles by function; `ALL` for every other one."""
    max_variants: dict[str, int] = field(default_factory=dict)
    """Likewise variants: compiles of one function for one module instance."""
    settle_by: dict[str, int] = field(default_factory=dict)
    """By name of step: the latest step from which three in a row must compile nothing and record no CUDA graph."""
    forbid: list[str] = field(default_factory=list)
    """Causes that no recompile may have."""
    max_errors: int | None = None
    """Functions that failed to compile, or that the framework gave up; none where only other compiles are limited."""
    max_cache_misses: int | None = None
    """Programs compiled again that the baseline, a trace of an earlier run, had compiled or loaded."""
    ready: str | None = None
    """Nothing may compile after `coldstep.ready()`: "compiles"; "strict" counts loads from a disk's cache, too."""
    max_slowdown: dict[str, float] = field(default_factory=dict)
    """By phase, or `FIRST_STEP`: how much longer than in the baseline it may take (0.2 is a fifth)."""
    max_autotune_seconds: float | None = None
    """How long all autotuning may take, the compiling of its choices included."""
    max_memory: int | None = None
    """Bytes of memory (RSS) at the peak."""
    max_device_memory: int | None = None
    """Bytes of device memory at the peak."""

    def given(self) -> list[str]:
        """The names of the limits that there are."""
        return [row.name for row in fields(self) if getattr(self, row.name) not in (None, {}, [])]


def parse(settings: Mapping[str, object], causes: Collection[str] = OURS.causes) -> Budget:
    """The budget in `settings`, with a name of `Budget` for each key, and numbers, lists, tables or text as values.

    In text, "1, train_step=3" limits train_step to 3 and all others to 1; "20%", "8 GiB" and "shape, dtype" are
    what they look like. `causes` are those that there are: ours, and those of collectors of others. Raises BudgetError.
    """
    limits: dict[str, Any] = {}
    for key, value in settings.items():
        name = key.replace("-", "_")
        if name not in _READERS:
            raise BudgetError(f"unknown limit {key!r}; there are {', '.join(_READERS)}")
        try:
            limits[name] = _READERS[name](value)
        except ValueError as error:
            raise BudgetError(f"{key}: {error}") from None
    budget = Budget(**limits)
    for name in budget.forbid:
        if name not in causes:
            raise BudgetError(f"forbid: {name!r} is no cause; there are {', '.join(causes)}")
    return budget


def _count(value: object) -> int:
    number = int(value) if isinstance(value, str) and value.strip().isdecimal() else value
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise ValueError(f"{value!r} is not a count, such as 0")
    return number


def _matched(pattern: str, value: object, what: str, kinds: type | UnionType = str) -> re.Match[str]:
    if not isinstance(value, kinds) or (match := re.fullmatch(pattern, str(value).strip())) is None:
        raise ValueError(f"{value!r} is not {what}")
    return match


def _share(value: object) -> float:
    return float(_matched(r"\+?(\d+(?:\.\d+)?) ?%", value, "a percentage, such as '20%'")[1]) / 100


def _seconds(value: object) -> float:
    match = _matched(r"(\d+(?:\.\d+)?) ?s?", value, "a number of seconds, such as 30", kinds=int | float | str)
    return float(match[1])


def _size(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    match = _matched(r"(\d+(?:\.\d+)?) ?([KMGT]?)(i?)B?", value, "a size in bytes, such as '8 GiB'")
    unit = 1024 if match[3] else 1000
    return int(float(match[1]) * unit ** " KMGT".index(match[2] or " "))


def _ready(value: object) -> str | None:
    word = value.strip().lower() if isinstance(value, str) else value
    if word in (True, "", "true", "yes", "on", COMPILED):
        return COMPILED
    if word not in (False, "false", "no", "off", STRICT):
        raise ValueError(f"{value!r} is none of true and {STRICT}")
    return STRICT if word == STRICT else None


def _causes(value: object) -> list[Any]:
    given = _words(value) if isinstance(value, str) else value
    return list(given) if isinstance(given, Sequence) else [given]


def _named(read: Callable[[object], float], rest: str) -> Callable[[object], dict[str, float]]:
    """A reader of limits by name; one without a name is for `rest`."""

    def reader(value: object) -> dict[str, float]:
        if isinstance(value, Mapping):
            return {str(name): read(limit) for name, limit in value.items()}
        if not isinstance(value, str):
            return {rest: read(value)}
        pairs = [word.rpartition("=") for word in _words(value)]
        return {name.strip() or rest: read(limit.strip()) for name, _, limit in pairs}

    return reader


def _words(text: str) -> list[str]:
    return [word.strip() for word in re.split(r"[,\n]", text) if word.strip()]


_READERS: dict[str, Callable[[object], object]] = {
    "max_recompiles": _count,
    "max_graph_breaks": _count,
    "max_compiles": _named(_count, ALL),
    "max_variants": _named(_count, ALL),
    "settle_by": _named(_count, ALL),
    "forbid": _causes,
    "max_errors": _count,
    "max_cache_misses": _count,
    "ready": _ready,
    "max_slowdown": _named(_share, FIRST_STEP),
    "max_autotune_seconds": _seconds,
    "max_memory": _size,
    "max_device_memory": _size,
}


# --- whether it is kept -----------------------------------------------------------------------------------------


@slotted
class Check:
    """One limit, held against what one process of one trace shows."""

    limit: str
    """A name of `Budget`; baseline_compiles, baseline_graph_breaks or baseline_settled for what a baseline allows."""
    subject: str
    """The thing counted: a function, a kind of step, a phase, the causes; empty where the limit names it already."""
    verdict: str
    """within | over | unknown"""
    found: float | None
    """What the trace shows; None where that never happened."""
    allowed: float
    """The limit."""
    findings: list[Finding] = field(default_factory=list)
    """The findings beyond the limit."""
    why: str = ""
    """Why it is unknown; of a limit that holds, the things that it leaves out."""
    process: int = 0
    """The process's index."""
    trace: int = 0
    """The position of the trace, of several."""
    confidence: float | None = None
    """Of a time: how sure it is that it is longer than allowed."""
    times_ns: tuple[float, float] | None = None
    """Of a time: the medians, in the baseline and now."""
    runs: tuple[int, int] | None = None
    """Of a time: of how many runs each median is."""
    is_new: bool = False
    """Whether it is of a function that no baseline compiled."""


@slotted
class Verdict:
    """All checks, and what keeps them from being trusted."""

    checks: list[Check]
    """One for each limit and what it limits."""
    doubts: list[str]
    """A sentence each."""
    notes: list[str] = field(default_factory=list)
    """What breaks no limit, and a reader of the verdict should know."""

    @property
    def word(self) -> str:
        """within | over | unknown. Where something was not seen it is unknown, whatever else, but for a compile after
        `ready()`, which is one whatever else there was; a limit that cannot be judged hides none that is broken."""
        verdicts = {row.verdict for row in self.checks}
        if self.doubts and not any(row.limit in _READY and row.verdict == "over" for row in self.checks):
            return "unknown"
        return next((word for word in ("over", "unknown") if word in verdicts), "within")


def judge(
    traces: Sequence[Trace],
    budget: Budget,
    baselines: Sequence[Trace | Summary] = (),
    whole_run: bool = True,
    allow_untraced: bool = False,
) -> Verdict:
    """Hold each of `traces` against `budget`, and what it leaves open against the worst of `baselines`. Processes below
    them that were not traced are no reason to doubt where `allow_untraced`.

    Where `whole_run` is false, a trace answers for itself alone: compiles before it began are no reason to doubt,
    as long as the trace names their functions.
    """
    known = [row if isinstance(row, Summary) else summarize(row) for row in baselines]
    measured = [row for row in baselines if isinstance(row, Trace)]
    checks: list[Check] = []
    for position, trace in enumerate(traces):
        judged = [*_counted(trace, budget), *(_against(trace, budget, known) if known else ())]
        for row in judged:
            row.trace = position
        checks += judged
    _say_where_ready(traces, checks)
    checks += _cache_misses(traces, measured, budget.max_cache_misses)
    checks += _slowdowns(traces, measured, budget.max_slowdown)
    needed, claims = _needed(budget, bool(known)), _claims(budget, bool(known))
    # a service is ended, and what it did until then counts; what it did before it was ready does not
    any_end = budget.given() == ["ready"] and not known
    whole_run = whole_run and not any_end
    doubtful = [
        *_of_all("trace", traces, lambda trace: doubts(trace, needed, claims, whole_run, any_end)),
        *(_below(traces, any_end) if (claims is None or claims) and not allow_untraced else ()),
        *_of_all("baseline", measured, lambda trace: doubts(trace, needed, claims)),
    ]
    notes = [
        note for trace in traces for note in (*_gone(trace, known), *_inferred(trace, budget), *_loaded(trace, budget))
    ]
    return Verdict(checks, doubtful, notes)


def _inferred(trace: Trace, budget: Budget) -> Iterator[str]:
    """That the steps which are held against a budget are none that the program marks."""
    for inference in trace.inferences if budget.settle_by else ():
        for name, by in inference.steps.items():
            if name in budget.settle_by or name not in _beside(trace, inference.process):
                where = f" at {by.location.file}:{by.location.line}" if by.location is not None else ""
                yield f"{name} is not marked but inferred, from {by.of}{where}"


def _loaded(trace: Trace, budget: Budget) -> Iterator[str]:
    """That programs came from a disk's cache where nothing may compile: each took a moment, too."""
    for row in trace.readiness if budget.ready == COMPILED else ():
        if row.loads_after:
            loaded = count(row.loads_after, "program was", "programs were")
            yield f"{loaded} loaded from a cache after {row.name}, {duration(row.loads_ns)}; --ready=strict allows none"


def _beside(trace: Trace, process: int) -> set[str]:
    """The names of calls that lie beside the steps of a program which marks none: evaluation, sampling."""
    rules = {name: by.rule for row in trace.inferences if row.process == process for name, by in row.steps.items()}
    calls = {name for name, rule in rules.items() if rule == "call"}
    return calls if len(calls) < len(rules) else set()


def _check(limit: str, subject: str, value: float, allowed: float, findings: Iterable[Finding] = ()) -> Check:
    over = value > allowed
    return Check(limit, subject, "over" if over else "within", value, allowed, list(findings) if over else [])


def _counted(trace: Trace, budget: Budget) -> Iterator[Check]:
    for process in trace.processes:
        for row in _of_process(trace, budget, process.index):
            row.process = process.index
            yield row


def _of_process(trace: Trace, budget: Budget, process: int) -> Iterator[Check]:
    recompiles = [row for row in trace.recompiles if row.process == process]
    if budget.max_recompiles is not None:
        refs = [row.id for row in recompiles]
        yield _check("max_recompiles", "", len(refs), budget.max_recompiles, _findings(trace, refs))
    if budget.max_graph_breaks is not None:
        refs = [row.id for row in trace.graph_breaks if row.process == process]
        yield _check("max_graph_breaks", "", len(refs), budget.max_graph_breaks, _findings(trace, refs))
    yield from _per_function("max_compiles", _by_function(trace, process), budget.max_compiles, trace)
    yield from _per_function("max_variants", _by_identity(trace, process), budget.max_variants, trace)
    yield from _settled(trace, budget.settle_by, process)
    if budget.forbid:
        refs = [row.id for row in recompiles if row.cause in budget.forbid]
        unclear = sum(row.cause == "unknown" for row in recompiles) if "unknown" not in budget.forbid else 0
        if unclear and not refs:
            why = f"of {unclear} recompile{'s' if unclear > 1 else ''} the cause is not known"
            yield Check("forbid", ", ".join(budget.forbid), "unknown", None, 0, why=why)
        else:
            yield _check("forbid", ", ".join(budget.forbid), len(refs), 0, _findings(trace, refs))
    yield from _readiness(trace, budget.ready, process)
    yield from _errors(trace, budget, process)
    if budget.max_autotune_seconds is not None:
        tuned = [row for row in trace.autotuning if row.process == process]
        took = sum(row.compile_ns + row.timing_ns for row in tuned) / 1e9
        yield _check("max_autotune_seconds", "", took, budget.max_autotune_seconds)
    memory = trace.memory
    for limit, value, allowed in (
        ("max_memory", memory.peak_rss_bytes, budget.max_memory),
        ("max_device_memory", memory.device_peak_bytes, budget.max_device_memory),
    ):
        if allowed is not None and value is None:
            yield Check(limit, "", "unknown", None, allowed, why="the trace does not show it")
        elif allowed is not None and value is not None:
            yield _check(limit, "", value, allowed)


def _readiness(trace: Trace, asked: str | None, process: int) -> Iterator[Check]:
    """What compiled after each `ready()` of a process."""
    if asked is None:
        return
    rows = [row for row in trace.readiness if row.process == process]
    for row in rows:
        late = row.compiles_after + row.loads_after if asked == STRICT else len(row.violations)
        late_findings = findings_of(trace, row) + (loads_of(trace, row) if asked == STRICT else [])
        subject = f"{row.name}, loads from disk included" if asked == STRICT else row.name
        builds = [each for each in late_findings if {*each.refs} <= {*row.builds}]
        yield _check("ready", subject, late, 0, [each for each in late_findings if each not in builds])
        if builds:
            yield _check("ready_builds", row.name, len(builds), 0, builds)
    if not rows and (trace.run.job is None or not trace.readiness):  # of a job, one process is enough
        after = trace.ready_after.get(process)
        steps = sum(len(each) for (of, _), each in intervals.kinds(trace.intervals).items() if of == process)
        why = "coldstep.ready() was not called in this process"
        if after is not None:
            why += f": it was to be after {after} steps, and there were {steps}"
        yield Check("ready", "", "unknown", None, 0, why=why)


def _say_where_ready(traces: Sequence[Trace], checks: Sequence[Check]) -> None:
    """Where a process did not call `ready()`, say which others did, and which may have."""
    several = len(traces) > 1
    called = [
        ", ".join(
            [*([f"trace {n}"] if several else ()), *([process_name(trace, at)] if len(trace.processes) > 1 else ())]
        )
        for n, trace in enumerate(traces, start=1)
        for at in dict.fromkeys(row.process for row in trace.readiness)
    ]
    for row in checks:
        if (row.limit, row.verdict) == ("ready", "unknown"):
            below = untraced_words(untraced(traces[row.trace], row.process))
            row.why += f"; it was called in {listed(called)}" if called else ""
            row.why += f"; {below}, and may have called it" if below is not None else ""


def _errors(trace: Trace, budget: Budget, process: int) -> Iterator[Check]:
    """What runs eagerly, or not at all, compiles nothing: no other limit would see it."""
    errors = [
        row for row in trace.findings
        if (row.process, row.severity) == (process, "error") and row.kind in _ERRORS
    ]  # fmt: skip
    if budget.max_errors is not None or (errors and _OF_COMPILES & set(budget.given())):
        yield _check("max_errors", "", len(errors), budget.max_errors or 0, errors)


def _per_function(
    limit: str, by_key: dict[Key, list[Compile]], allowed: dict[str, int], trace: Trace
) -> Iterator[Check]:
    names = [name for _, name, _ in by_key]
    for name in allowed:
        if name != ALL and name not in names:
            why = f"no function {name} was compiled; there are {', '.join(sorted(set(names))) or 'none'}"
            yield Check(limit, name, "unknown", None, allowed[name], why=why)
    for (file, name, _), compiles in by_key.items():
        if (most := allowed.get(name, allowed.get(ALL))) is not None:
            subject = name if names.count(name) == 1 else f"{name} in {file}"
            yield _check(limit, subject, len(compiles), most, map(_Culprits(trace).of, _too_many(compiles, most)))


def _by_function(trace: Trace, process: int) -> dict[Key, list[Compile]]:
    return gathered((key_of(row), row) for row in trace.compiles if row.process == process and is_variant(row))


def _by_identity(trace: Trace, process: int) -> dict[Key, list[Compile]]:
    """Of each function, the compiles of the identity that has the most of them."""
    return {
        key: max(gathered((trace.details[row.id].identity, row) for row in rows).values(), key=len)
        for key, rows in _by_function(trace, process).items()
    }


def _settled(trace: Trace, allowed: dict[str, int], process: int) -> Iterator[Check]:
    compiles = {row.id: row for row in trace.compiles}
    busy, recorded = unsettled(trace), cuda_graphs.stories(trace)
    eager = eager_programs.repeated(trace)
    culprits = _Culprits(trace)
    every = intervals.kinds(trace.intervals, trace.unfinished)
    kinds = {name: steps for (of, name), steps in every.items() if of == process}
    for name in allowed:
        if name not in kinds and (name != ALL or not kinds):
            none = next((row.why for row in trace.inferences if row.process == process and row.why is not None), None)
            why = f"no step was marked{f', and none inferred: {none}' if none is not None else ''}"
            if kinds:
                why = f"no step is called {name}; there are {', '.join(sorted(kinds))}"
            yield Check("settle_by", name, "unknown", None, allowed[name], why=why)
    judged = {row.name: row for row in trace.settling if row.process == process and row.by == "step"}
    beside = _beside(trace, process)
    for name, steps in kinds.items():
        by = allowed.get(name, allowed.get(ALL) if name not in beside else None)
        if by is None:
            continue
        did = [step.index in busy for step in steps[: by + QUIET_STEPS]]
        windows = [did[first : first + QUIET_STEPS] for first in range(min(by, len(did)) + 1)]
        settled = judged[name].settled_at_step if name in judged else None
        if name in judged and judged[name].verdict == "not_observable":
            yield Check("settle_by", name, "unknown", None, by, why=judged[name].why or "")
        elif settled is not None and settled <= by:
            later = sum(any(counts(compiles[each]) for each in step.compiles) for step in steps[settled:])
            steps_ = f"{later} later step{'s' if later > 1 else ''}"
            why = f"{steps_} compiled, which --max-recompiles and --max-compiles limit" if later else ""
            yield Check("settle_by", name, "within", settled, by, why=why)
        elif any(len(window) < QUIET_STEPS and not any(window) for window in windows):
            why = f"{name} was run {len(steps)} times: to settle by step {by} takes {by + QUIET_STEPS}"
            enough = [other for other, rows in kinds.items() if len(rows) >= by + QUIET_STEPS]
            if name not in allowed and enough:
                why += f"; to leave {name} out, name the steps to settle: {','.join(f'{each}={by}' for each in enough)}"
            yield Check("settle_by", name, "unknown", settled, by, why=why)
        else:
            late = steps[by:settled]
            indices = {step.index for step in late}
            repeated = [group for group in eager if group.in_steps and not indices.isdisjoint(group.steps)]
            again = [story for story in recorded if any(graph.interval in indices for graph in story.graphs)]
            findings = [
                *(culprits.of(compiles[each]) for step in late for each in step.compiles if counts(compiles[each])),
                *(eager_programs.told(trace, group) for group in repeated),
                *(cuda_graphs.of_story(story, late, "cuda_graph", "warning") for story in again),
            ]
            yield Check("settle_by", name, "over", settled, by, findings)


# --- against a baseline -----------------------------------------------------------------------------------------


def _against(trace: Trace, budget: Budget, baselines: Sequence[Summary]) -> Iterator[Check]:
    """No more compiles and graph breaks of a function, and no later settling, than in the worst of the baselines.

    What a limit is given for is that limit's. A function that is new may compile once.
    """
    given = set(budget.given())
    culprits = _Culprits(trace)
    now = summarize(trace)
    for key, function in now.functions.items():
        before = [known for row in baselines if (known := _same(row, key)) is not None]
        variants = [row for row in trace.compiles if is_variant(row) and key_of(row) == key]
        if not given & {"max_recompiles", "max_compiles", "max_variants"}:
            allowed = max((row.compiles for row in before), default=1)
            findings = map(culprits.of, _too_many(_new_causes_first(trace, variants, before), allowed))
            check = _check("baseline_compiles", function.name, function.compiles, allowed, findings)
            check.is_new = not before
            yield check
        if "max_graph_breaks" not in given:
            allowed = max((row.graph_breaks.total() for row in before), default=0)
            ids = {row.id for row in variants}
            breaks = _findings(trace, [row.id for row in trace.graph_breaks if row.compile in ids])
            number = function.graph_breaks.total()
            yield _check("baseline_graph_breaks", function.name, number, allowed, breaks)
    if "settle_by" not in given:
        settled = gathered(pair for row in baselines for pair in row.settled.items())
        seen = {name: [step for step in steps if step is not None] for name, steps in settled.items()}
        limits = {name: max(steps) for name, steps in seen.items() if len(steps) == len(settled[name])}
        for process in trace.processes:
            for check in _settled(trace, limits, process.index):
                check.limit, check.process = "baseline_settled", process.index
                yield check


def _gone(trace: Trace, baselines: Sequence[Summary]) -> Iterator[str]:
    """The functions that every baseline compiled, and this run did not."""
    now = summarize(trace)
    for key, function in baselines[0].functions.items() if baselines else ():
        if _same(now, key) is None and all(_same(row, key) is not None for row in baselines):
            times = "once" if function.compiles == 1 else f"{function.compiles} times"
            yield f"{function.name} was compiled {times} in the baseline, and not at all now"


def _same(baseline: Summary, key: Key) -> Function | None:
    """The function in a baseline, also where it lay in another file."""
    if key in baseline.functions:
        return baseline.functions[key]
    alike = [row for row in baseline.functions.values() if (row.name, row.stack) == key[1:]]
    return alike[0] if len(alike) == 1 else None


def _new_causes_first(trace: Trace, compiles: list[Compile], before: Sequence[Function]) -> list[Compile]:
    """The compiles of one function; last those whose causes the baselines have, too, and as often."""
    usual: Counter[str] = Counter()
    for function in before:
        usual |= function.recompiles
    causes = {row.compile: cause_of(row) for row in trace.recompiles}
    new, known = list[Compile](), list[Compile]()
    for row in compiles:
        cause = causes.get(row.id, "")
        usual[cause] -= 1
        (new if cause and usual[cause] < 0 else known).append(row)
    return new + known


def _too_many(compiles: Sequence[Compile], allowed: int) -> list[Compile]:
    """As many as are above what is allowed, recompiles first: the first compile is the one that must be."""
    return sorted(compiles, key=lambda row: row.reason == "first")[: max(0, len(compiles) - allowed)]


def _cache_misses(traces: Sequence[Trace], baselines: Sequence[Trace], allowed: int | None) -> Iterator[Check]:
    """Each process against its like in the first baseline that has it."""
    for position, trace in enumerate(traces) if allowed is not None else ():
        for process in trace.processes:
            like = [(other, row.index) for other in baselines for row in other.processes if row.rank == process.rank]
            if not like:
                why = "it takes the trace of an earlier run with --baseline"
                check = Check("max_cache_misses", "", "unknown", None, allowed or 0, why=why)
            else:
                earlier, index = like[0]
                misses = missed(earlier, trace, index, process.index)
                again = {row.later: row for row in reversed(misses) if row.later is not None}
                findings = [_cache_miss(trace, row) for row in again.values()]
                check = _check("max_cache_misses", "", len(again), allowed or 0, findings)
            check.trace, check.process = position, process.index
            yield check


def _cache_miss(trace: Trace, program: Program) -> Finding:
    (row,) = (row for row in trace.compiles if row.id == program.later)
    differ = [f"{each.name}: {each.before or 'none'} → {each.after or 'none'}" for each in program.components]
    why = "; ".join([*differ, program.why_text] if program.why_text else differ)
    text = f"{row.function} was compiled again ({CACHES.get(program.layer, program.layer)})"
    text = f"{text}: {why}" if why else text
    cure = advice(program.layer, program.why, (each.name for each in program.components))
    return of_compile(trace, row, "cache_miss", text, cost_ns=program.cost_ns, advice=cure)


def _slowdowns(traces: Sequence[Trace], baselines: Sequence[Trace], allowed: dict[str, float]) -> Iterator[Check]:
    """Times scatter: a limit on one needs several runs on either side, and says how sure it is."""
    now, before = _first_steps(traces), _first_steps(baselines)
    for phase, share in allowed.items():
        for name in now or ("",):
            current, others = ([row.get(phase, 0) for row in side.get(name, ())] for side in (now, before))
            subject = f"{phase} of {name}" if name not in ("", "step") else phase
            runs = len(current), len(others)
            if min(runs) < _MIN_TRACES:
                needs = f"times need {_MIN_TRACES} traces here and {_MIN_TRACES} with --baseline"
                why = f"{needs}, there are {runs[0]} and {runs[1]} with such a step"
                yield Check("max_slowdown", subject, "unknown", None, share, why=why)
                continue
            sure = confidence_of_more(current, [ns * (1 + share) for ns in others])
            verdict = "over" if sure >= _MIN_CONFIDENCE else "within"
            times = was, now_ns = median(others), median(current)
            more = now_ns / was - 1 if was else None
            yield Check("max_slowdown", subject, verdict, more, share, confidence=sure, times_ns=times, runs=runs)


def _first_steps(traces: Sequence[Trace]) -> dict[str, list[dict[str, int]]]:
    """By name of step: the phases of its first step in each trace, and under `FIRST_STEP` the whole of it."""
    return gathered(
        (cost.name, {row.phase: row.ns for row in first.phases} | {FIRST_STEP: first.wall_ns})
        for trace in traces
        for cost in trace.cost
        for first in [cost.first_step]
    )


# --- what is behind it ------------------------------------------------------------------------------------------


def _findings(trace: Trace, refs: Sequence[str]) -> list[Finding]:
    """The findings on these recompiles or graph breaks."""
    wanted = set(refs)
    return [row for row in trace.findings if row.kind in ("recompile", "graph_break") and wanted & set(row.refs)]


class _Culprits:
    """Finds what there is to say of a compile that is one too many."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        recompiles = {row.id: row.compile for row in trace.recompiles}
        self._known = {recompiles[row.refs[0]]: row for row in trace.findings if row.kind == "recompile"}

    def of(self, compile_: Compile) -> Finding:
        """The finding on a compile: its recompile's, or one that reports it as the first."""
        if (known := self._known.get(compile_.id)) is not None:
            return known
        where = in_step(self._trace.intervals[compile_.segments[0].interval])
        text = f"{compile_.function} {without_recompile(compile_)}{where}"
        return of_compile(self._trace, compile_, "compile", text)


def _needed(budget: Budget, baseline: bool) -> set[str]:
    """What must have been seen wholly."""
    limits = {*budget.given(), *(["baseline"] if baseline else ())}
    needed = {what for limit in limits for what in _NEEDED.get(limit, {_COMPILES})}
    return needed | {_PHASES} if set(budget.max_slowdown) - {FIRST_STEP} else needed


def _watching(trace: Trace, needed: set[str]) -> dict[str, str]:
    """The collectors that see what is needed, and the package that each watches."""
    packages = {"imports": ""} if _PHASES in needed else {}
    for stack in trace.vocabulary.stacks.values():
        package = stack.packages[0]
        if _COMPILES in needed or (_BREAKS in needed and stack.breaks):
            packages[stack.collector] = package
        if _PHASES in needed:
            packages |= dict.fromkeys(stack.parts, package)
    return packages


def _claims(budget: Budget, baseline: bool) -> Names:
    """What nothing may have been missed of; None where nothing at all may."""
    given = budget.given()
    if "max_slowdown" in given:
        return None
    if baseline:
        return set(CLAIMS)
    return set().union(*(_CLAIMS.get(limit, {COMPILES, RECOMPILES}) for limit in given))


def _of_all(what: str, traces: Sequence[Trace], texts: Callable[[Trace], Iterable[str]]) -> Iterator[str]:
    """The texts on each trace, and which it is of several."""
    for number, trace in enumerate(traces, start=1):
        where = f"{what} {number}: " if len(traces) > 1 else "" if what == "trace" else f"{what}: "
        yield from (f"{where}{text}" for text in texts(trace))


def _below(traces: Sequence[Trace], after_ready: bool) -> Iterator[str]:
    """The processes below that may have compiled what the traces do not show; of a service only those that ran after it
    was ready."""
    elsewhere = {(process.host, process.pid) for trace in traces for process in trace.processes}

    def below(trace: Trace) -> Iterator[str]:
        notes = untraced_before(trace)
        for process in trace.processes:
            since = _ready_ns(trace, process.index) if after_ready else None
            rows = [row for row in untraced(trace, process.index, since) if (process.host, row.pid) not in elsewhere]
            notes += filter(None, [untraced_words(rows)])
        return (f"{note} (--allow-untraced allows that)" for note in notes)

    return _of_all("trace", traces, below)


def _ready_ns(trace: Trace, process: int) -> int | None:
    """When a process first was ready; None where it never was."""
    return min((row.ready_ns for row in trace.readiness if row.process == process), default=None)


def doubts(
    trace: Trace, needed: Names = None, claims: Names = None, whole_run: bool = True, any_end: bool = False
) -> Iterator[str]:
    """Why things may have happened that the trace does not show, where it needs these (by default all compiles and
    phases), and its collectors must have missed none of these `blind_spots.CLAIMS` (by default: lack nothing); how it
    ended is no reason where `any_end` will do, as long as the file is whole."""
    if trace.run.ended == "killed":
        yield "the trace was cut: the process was killed, could not write any more, or the file was cut later"
    elif trace.run.ended == "running":
        yield "the process still runs: what it will do is not in the trace"
    elif trace.run.ended != "ok" and not any_end:
        why = f" ({trace.run.error})" if trace.run.error else ""
        yield f"the run did not come to its end: {trace.run.ended}{why}"
    if trace.run.dropped.ledger:
        yield f"{trace.run.dropped.ledger} events were lost to a write error"
    for process in trace.processes if claims is None or claims & set(HIDDEN) else ():
        since = _ready_ns(trace, process.index) if any_end else None
        if (route := unseen_route(trace, process.index, since)) is not None:
            yield route
    watching = _watching(trace, {_COMPILES, _PHASES} if needed is None else needed)
    for process in trace.processes:
        rows = {row.name: row for row in trace.collectors if row.process == process.index and row.name in watching}
        for name, row in rows.items():
            missed = bool(row.missing) if claims is None else bool(claims & set(row.blind))
            if row.state in _STATES and (missed or row.state == "failed" or (row.state == "late" and whole_run)):
                why = f" ({'; '.join(row.missing)})" if row.missing else ""
                yield f"the collector {name} {_STATES[row.state]}{why}"
        for name, framework in sorted(watching.items()):
            if framework in process.versions and (name not in rows or rows[name].state == "absent"):
                yield f"{framework} was imported, but the collector {name} did not watch it"
