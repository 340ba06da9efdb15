"""One model in several stacks, a trace each: a row of figures per trace, ranked, and the reason of each figure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import reduce
from typing import Any

from coldstep._util.figures import count, duration, listed, percent, scatter, size
from coldstep._util.slotted import field, slotted
from coldstep.analysis.unobserved import unknown
from coldstep.blind_spots import COMPILES
from coldstep.errors import ColdstepError
from coldstep.model import UNATTRIBUTED, Compile, Interval, Settling, Trace
from coldstep.rows.intervals import kinds
from coldstep.rows.variants import is_variant
from coldstep.vocabulary import OURS, Vocabulary

SCHEMA = "coldstep-compare/1"

_MAX_PHASES = 3  # named of one step
_MAX_FUNCTIONS = 6
_SMALL_SHARE = 0.01  # of a step: below it, a phase is not named
_SLOW_SECOND = 1.5  # times a steady step: from there on it needs a reason where it compiled nothing
_GAP_SHARE = 0.25  # of what a steady step takes longer: a phase with less explains nothing
_MIN_STEADY = 3  # steps that a median is made of, as in `Cost`
# JAX 0.10: "    %6 = stablehlo.subtract %arg0, %5 : tensor<4xf32> loc(#loc48)"
_STABLEHLO = re.compile(r"\"?stablehlo\.(?!constant\b|return\b)[a-z_]+\"?[ (]")
_NEW_INPUTS = "new inputs"
_RUNNING = ("execute", UNATTRIBUTED)
_NOT_TOLD = ("words", "reasons", "steady_phases", "steady_spread_ns", "walls_ns")  # as they are, in JSON


Intervals = Sequence[Interval]


class NotComparable(ColdstepError, ValueError):
    """Traces that have no kind of step in common; the message is one line."""


@slotted
class StackRow:
    """The figures that one trace has of the steps of one name. One that it lacks is None, with the reason in
    `reasons`."""

    stack: str
    """The compilers that its steps went through, by `Compile.stack`: "jax", "dynamo+torch_xla", "torch eager"."""
    words: str
    """The same for people."""
    trace: str
    """The file."""
    first_ns: int | None = None
    """Step 0."""
    second_ns: int | None = None
    """Step 1."""
    steady_ns: int | None = None
    """The median of the steady steps; None below three."""
    settled_at_step: int | None = None
    """The first step from which nothing compiled any more."""
    compiles: int | None = None
    """How many variants of the user's functions its steps compiled."""
    graphs_per_step: int | None = None
    """How many of the compiled graphs a steady step runs: those of each function's latest variant."""
    phases: dict[str, int] = field(default_factory=dict)
    """Nanoseconds by phase, unattributed time included, of all steps that were not steady."""
    memory: dict[str, int | None] = field(default_factory=dict)
    """Bytes: `peak_rss_bytes` and `device_peak_bytes` in these steps, `before_rss_bytes` before the first of them,
    `program_bytes` of the largest program."""
    operations: int | None = None
    """How many operations those graphs have."""
    reasons: dict[str, str] = field(default_factory=dict)
    """By figure ("first", "second", "steady" …), why it is what it is."""
    steady_phases: dict[str, int] = field(default_factory=dict)
    """Nanoseconds by phase of a steady step, on average of the middle half of them."""
    steady_spread_ns: int | None = None
    """Between the quarters of the steady steps."""
    walls_ns: list[int] = field(default_factory=list)
    """Of the steps before the steady ones, of the first two at least."""

    @property
    def memory_bytes(self) -> int | None:
        """The most that was held in these steps: on the device, where it has memory of its own."""
        return self.memory.get("device_peak_bytes") or self.memory.get("peak_rss_bytes")

    def to_json(self) -> dict[str, Any]:
        """The row as `coldstep compare --json` prints it."""
        names = [each.name for each in fields(self) if each.name not in _NOT_TOLD]
        return {name: getattr(self, name) for name in names} | {
            "reasons": [f"{figure}: {text}" for figure, text in self.reasons.items()]
        }


@slotted
class Ahead:
    """The stack that has taken the least time in all, from so many steps on."""

    steps: int
    """From 1."""
    trace: str
    """Its file."""


@slotted
class Stacks:
    """The comparison: the fastest steady step first, what has none last."""

    name: str
    """The name of the steps that are compared."""
    others: list[str]
    """Further names that all have in common."""
    rows: list[StackRow]
    ahead: list[Ahead]
    """By length of a run, which has taken the least time in all; empty where one has no steady step, or there is but
    one. Of two whose steady steps differ by less than they vary, the later does not take the lead by these."""
    vocabulary: Vocabulary = OURS
    """The words of all traces."""

    def to_json(self) -> dict[str, Any]:
        """The document of schema coldstep-compare/1."""
        return {"schema": SCHEMA, "name": self.name, "stacks": [row.to_json() for row in self.rows]}


def compare(traces: Sequence[tuple[str, Trace]]) -> Stacks:
    """The steps of one name in several traces, each given with its path. Raises NotComparable."""
    name, others = common_name(traces)
    rows = [figures_of(path, trace, name) for path, trace in traces]
    rows.sort(key=lambda row: tuple((ns is None, ns or 0) for ns in (row.steady_ns, row.first_ns)))
    vocabulary = reduce(Vocabulary.joined, (trace.vocabulary for _, trace in traces), OURS)
    known = [row for row in rows if row.steady_ns is not None]
    for row in known[1:]:
        row.reasons["steady"] += f"; {_longer(row, known[0], vocabulary)}"
    return Stacks(name, others, rows, _ahead(rows), vocabulary)


def common_name(traces: Sequence[tuple[str, Trace]]) -> tuple[str, list[str]]:
    """The name of steps that all traces have which have any, the one that most time went to; and the others."""
    spent: Counter[str] = Counter()
    having: list[tuple[str, set[str]]] = []
    for path, trace in traces:
        steps = [row for row in trace.intervals if row.kind == "step"]
        for row in steps:
            spent[row.name or ""] += row.wall_ns
        having.append((path, {row.name or "" for row in steps}))
    stepped = [names for _, names in having if names]
    if not stepped:
        raise NotComparable("none of these traces has steps: mark them with coldstep.step(name)")
    common = set.intersection(*stepped)
    if not common:
        by_trace = [f"{path} has {listed(sorted(names), 3)}" for path, names in having if names]
        raise NotComparable(f"no step of one name in all traces, and only such are compared: {'; '.join(by_trace)}")
    first, *others = sorted(common, key=lambda name: (-spent[name], name))
    return first, others


# --- a row --------------------------------------------------------------------------------------------------------


def figures_of(path: str, trace: Trace, name: str) -> StackRow:
    """The row of one trace, of its steps of that name."""
    process, steps = slowest_process(trace, name)
    own = compiled_for(trace, process, name)
    run = own or _compiled_before(trace, process)
    stack, words = _stack_of(trace, process, run)
    row = StackRow(stack, words, path)
    if ended := _ending(trace):
        row.reasons["ended"] = ended
    settling = next((s for s in trace.settling if s.by == "step" and (s.process, s.name) == (process, name)), None)
    cost = next((each for each in trace.cost if (each.process, each.name) == (process, name)), None)
    unseen = unknown(trace, COMPILES, process)
    if len(trace.processes) > 1:
        row.reasons["rank"] = f"process {process}, whose first step took longest, of {len(trace.processes)}"
    row.settled_at_step = settling.settled_at_step if settling is not None else None
    if cost is not None:
        row.steady_ns, row.steady_spread_ns = cost.steady_step_ns, cost.steady_spread_ns
    row.walls_ns = [step.wall_ns for step in _unsteady(steps)]
    _first(row, trace, steps)
    in_call = all(trace.vocabulary.in_call(each.stack) for each in run)
    _second(row, trace, steps, settling, unseen, in_call)
    _steady(row, trace, steps, settling, run, in_call)
    row.phases = dict(_shares(step for step in steps if step.label != "steady"))
    _programs(row, trace, own, run, unseen if steps else unseen or "no step was finished")
    _memory(row, trace, process, steps, run)
    return row


def _unsteady(steps: Sequence[Interval]) -> Iterator[Interval]:
    for at, step in enumerate(steps):
        if at > 1 and step.label == "steady":
            return
        yield step


def slowest_process(trace: Trace, name: str) -> tuple[int, list[Interval]]:
    """Of a job, the process whose first step took longest: the others waited for it; and its finished steps."""
    by_kind = kinds(trace.intervals, trace.unfinished)
    steps = {process: list(rows) for (process, of), rows in by_kind.items() if of == name}
    process, slowest = max(steps.items(), key=lambda item: item[1][0].wall_ns, default=(0, []))
    if (failure := trace.failures.get(process)) is not None and failure.in_step and slowest:
        last = [row for row in trace.intervals if row.kind == "step" and row.process == process][-1]
        slowest = [row for row in slowest if row.index != last.index]
    return process, slowest


def compiled_for(trace: Trace, process: int, name: str) -> list[Compile]:
    """The variants of the user's own functions that count for the steps of that name, one cut short included."""
    counted = _in_steps(trace, process, name)
    return [row for row in trace.compiles if row.id in counted and is_variant(row)]


def _compiled_before(trace: Trace, process: int) -> list[Compile]:
    """The variants of the user's own functions that were compiled outside of all steps: ahead of time, to warm up."""
    stepped = _in_steps(trace, process)
    return [row for row in trace.compiles if row.process == process and row.id not in stepped and is_variant(row)]


def _in_steps(trace: Trace, process: int, name: str | None = None) -> set[str]:
    """The ids of what compiled in steps, of that name only where one is given."""
    own = (row for row in trace.intervals if row.kind == "step" and row.process == process)
    return {compile_ for row in own if name in (None, row.name or "") for compile_ in row.compiles}


def _stack_of(trace: Trace, process: int, compiles: Sequence[Compile]) -> tuple[str, str]:
    """What the steps went through: the compilers, or the framework that ran them without one."""
    stacks = list(dict.fromkeys(row.stack for row in compiles))
    words = [trace.vocabulary.stacks[name].words if name in trace.vocabulary.stacks else name for name in stacks]
    if len(stacks) == 1 and any(f"{stacks[0]}.xla" in part.phases for row in compiles for part in row.segments):
        return f"{stacks[0]}+xla", f"{words[0]} with XLA"
    if stacks:
        return "+".join(sorted(stacks)), " + ".join(sorted(words))
    versions = trace.processes[process].versions if trace.processes else {}
    packages = [stack.packages[0] for stack in trace.vocabulary.stacks.values() if stack.packages[0] in versions]
    framework = next((name for name in ("torch", *packages) if name in packages), "nothing")
    return f"{framework} eager", f"eager {framework}"


def _ending(trace: Trace) -> str:
    """What kept the run from its end; "" where nothing did."""
    if trace.run.ended in ("ok", "exit"):
        return ""
    memory = [row.text for row in trace.findings if row.kind == "out_of_memory"]
    parts = memory or [f"by {trace.run.error}" if trace.run.error else trace.run.ended]
    open_ = trace.intervals[trace.unfinished] if trace.unfinished is not None else None
    if open_ is not None:
        parts.append(f"step {open_.step} was not finished after {duration(open_.wall_ns)}")
    begun = (row for row in trace.compiles if row.outcome == "in_progress")
    parts += [f"{row.function} was still being compiled after {duration(row.wall_ns)}" for row in begun]
    return "; ".join(parts).replace("\n", " ")


def _first(row: StackRow, trace: Trace, steps: Sequence[Interval]) -> None:
    if not steps:
        row.reasons["first"] = "no step was finished"
        return
    row.first_ns = steps[0].wall_ns
    dispatched = "; its work was handed over, and not waited for" if steps[0].measures == "dispatch" else ""
    row.reasons["first"] = _went_to(trace, steps[:1]) + dispatched


def _second(
    row: StackRow, trace: Trace, steps: Intervals, settling: Settling | None, unseen: str | None, in_call: bool
) -> None:
    if len(steps) < 2:
        row.reasons["second"] = "there is none"
        return
    second = steps[1]
    row.second_ns = second.wall_ns
    causes = [cause for cause in settling.causes if cause.step == second.step] if settling is not None else []
    parts = [
        "; ".join([cause.text, *(text for text in cause.evidence if text.startswith(_NEW_INPUTS))]) for cause in causes
    ]
    if not parts:
        parts.append("compiled nothing" if unseen is None else f"nothing was seen to compile ({unseen})")
        if row.steady_ns and second.wall_ns > _SLOW_SECOND * row.steady_ns:
            more = excess(_shares([second], in_call), _average(steps, in_call), trace.vocabulary)
            longer = f", longer by {listed(more)}" if more else ""
            parts.append(f"{second.wall_ns / row.steady_ns:.1f} times a steady step{longer}")
    row.reasons["second"] = "; ".join(parts)


def _steady(
    row: StackRow, trace: Trace, steps: Intervals, settling: Settling | None, compiles: Sequence[Compile], in_call: bool
) -> None:
    steady = [step for step in steps if step.label == "steady"]
    if row.steady_ns is None:
        why = settling.why if settling is not None else None
        row.reasons["steady"] = why or f"{count(len(steady), 'steady step')}, and a median takes {_MIN_STEADY}"
        return
    row.steady_phases = _average(steps)
    spread = f" {scatter(row.steady_ns, row.steady_spread_ns)}" if row.steady_spread_ns is not None else ""
    parts = [f"median of {len(steady)}{spread}, from step {steady[0].step} on"]
    parts.append(_went_to(trace, _middle(steady), in_call))
    if in_call:
        parts.append("kernels run inside the call: their time is unattributed")
    if any(each.stack == "torch_xla" for each in compiles):
        parts.append("Python traces the lazy graph anew in each step: that time is unattributed")
    row.reasons["steady"] = "; ".join(parts)


def _longer(row: StackRow, fastest: StackRow, vocabulary: Vocabulary) -> str:
    """How much longer than the fastest a steady step takes, and the phases that make most of it: execution is
    in no phase where kernels run inside the call, and is not compared."""
    assert row.steady_ns is not None
    assert fastest.steady_ns is not None
    text = f"{row.steady_ns / max(1, fastest.steady_ns):.1f} times {fastest.words}"
    named = excess(row.steady_phases, fastest.steady_phases, vocabulary, _RUNNING)
    return f"{text}, of which {listed(named)}" if named else text


def excess(
    phases: Mapping[str, int], beside: Mapping[str, int], vocabulary: Vocabulary, without: Sequence[str] = ()
) -> list[str]:
    """The phases that make most of what one step takes longer than another, in words."""
    gap = sum(phases.values()) - sum(beside.values())
    more = Counter(phases)
    more.subtract(beside)
    most = ((name, ns) for name, ns in more.most_common(_MAX_PHASES) if ns >= _GAP_SHARE * gap > 0)
    return [f"{duration(ns)} {vocabulary.phase(name)}" for name, ns in most if name not in without]


def _average(steps: Sequence[Interval], in_call: bool = False) -> dict[str, int]:
    """Nanoseconds by phase of a steady step."""
    steady = _middle([step for step in steps if step.label == "steady"])
    return {name: ns // len(steady) for name, ns in _shares(steady, in_call).items()}


def _middle(steady: Sequence[Interval]) -> Sequence[Interval]:
    """The half of them that takes neither long nor little: the figure is a median, and a step that was kept waiting, or
    in which coldstep looked at what had been compiled, is not like it."""
    cut = len(steady) // 4
    return sorted(steady, key=lambda step: step.wall_ns)[cut : len(steady) - cut]


def _went_to(trace: Trace, steps: Sequence[Interval], in_call: bool = False) -> str:
    """The largest phases of some steps, in words."""
    whole = sum(step.wall_ns for step in steps) or 1
    named = [(name, ns / whole) for name, ns in _shares(steps, in_call).most_common() if ns >= _SMALL_SHARE * whole]
    return ", ".join(f"{percent(share)} {trace.vocabulary.phase(name)}" for name, share in named[:_MAX_PHASES])


def _shares(steps: Iterable[Interval], in_call: bool = False) -> Counter[str]:
    """Nanoseconds by phase. Of kernels that run `in_call` the execution of some steps may have been seen, that of the
    others not: it is unattributed in all of them then."""
    shares: Counter[str] = Counter()
    for step in steps:
        shares.update(step.phases)
        shares[UNATTRIBUTED] += step.unattributed_ns
    if in_call:
        shares[UNATTRIBUTED] += shares.pop("execute", 0)
    return +shares


# --- what was compiled --------------------------------------------------------------------------------------------


def _programs(
    row: StackRow, trace: Trace, own: Sequence[Compile], compiles: Sequence[Compile], unseen: str | None
) -> None:
    """How many compiles these steps made, `mine`; graphs per step and operations, of the `compiles` that they run: as
    far as that was seen."""
    if unseen is not None and not compiles:
        for figure in ("compiles", "graphs", "operations"):
            row.reasons[figure] = f"not known: {unseen}"
        return
    row.compiles = len(own)
    functions = _named(each.function for each in compiles)
    before = "" if own else "compiled before the steps: "
    row.reasons["compiles"] = f"{before}{functions}" if functions else "each operation runs by itself"
    lazy = [each for each in compiles if each.stack == "torch_xla"]  # what Dynamo captures for it, it compiles
    latest = {trace.details[each.id].identity: each for each in lazy or compiles if each.outcome != "skipped"}
    run = [each for each in latest.values() if each.parent is None or each.parent not in {c.id for c in compiles}]
    graphs = [(each, part) for each in run for part in _parts(each)]
    row.graphs_per_step = len(graphs)
    row.reasons["graphs"] = _named(_graph(each, part) for each, part in graphs) or "none is compiled"
    _operations(row, trace, run)


def _named(functions: Iterable[str]) -> str:
    """Each function once, and how often it was there."""
    return listed([f"{name}{f' {n} times' if n > 1 else ''}" for name, n in Counter(functions).items()], _MAX_FUNCTIONS)


def _parts(compile_: Compile) -> list[str]:
    """The graphs of one compile: a backward is one of its own."""
    return ["forward", *(["backward"] if any(part.part == "backward" for part in compile_.segments) else [])]


def _graph(compile_: Compile, part: str) -> str:
    return f"{compile_.function}'s backward" if part == "backward" else compile_.function


def _operations(row: StackRow, trace: Trace, run: Sequence[Compile]) -> None:
    """In StableHLO where all programs were kept so, which is the same in every stack; else in what is there."""
    if not run:
        row.reasons["operations"] = "no graph holds them"
        return
    kept = [trace.details[each.id].programs.get("stablehlo") for each in run]
    texts = [text for text in kept if text is not None]
    if len(texts) == len(run):
        row.operations = sum(len(_STABLEHLO.findall(text)) for text in texts)
        row.reasons["operations"] = "of StableHLO, before the compiler's own passes"
        return
    counted = [
        next(((form, graph["operations"]) for form, graph in (each.ir or {}).items() if "operations" in graph), None)
        for each in run
    ]
    known = [each for each in counted if each is not None]
    if len(known) < len(run):
        row.reasons["operations"] = "not counted: record with --ir" if not texts else "not all programs were kept"
        return
    row.operations = sum(operations for _, operations in known)
    forms = listed(form for form, _ in known)
    row.reasons["operations"] = f"of {forms}: other forms count other things; record with --ir to count StableHLO"


def _memory(row: StackRow, trace: Trace, process: int, steps: Sequence[Interval], compiles: Sequence[Compile]) -> None:
    peak = max(((step.rss_bytes, step.step) for step in steps if step.rss_bytes is not None), default=None)
    device = max((step.device_bytes for step in steps if step.device_bytes is not None), default=None)
    before = (each for each in trace.intervals[: steps[0].index if steps else 0] if each.process == process)
    earlier = [each.rss_bytes for each in before if each.rss_bytes is not None]
    programs = [(each.memory.whole_bytes, each.function) for each in compiles if each.memory is not None]
    largest = max(programs, default=None)
    row.memory = {
        "peak_rss_bytes": peak[0] if peak is not None else None,
        "before_rss_bytes": earlier[-1] if earlier else None,
        "device_peak_bytes": device,
        "program_bytes": largest[0] if largest is not None else None,
    }
    parts = ["on the device"] if device else []
    if peak is not None:
        grown = peak[0] - earlier[-1] if earlier else 0
        more = f", {size(grown)} more than before the first" if grown > 0 else ""
        parts.append(f"{f'{size(peak[0])} ' if device else ''}resident, in step {peak[1]}{more}")
    elif not device:
        parts.append("resident memory was not observed" if steps else "no step was finished")
    if largest is not None and largest[0]:
        parts.append(f"{largest[1]} itself needs {size(largest[0])}")
    row.reasons["memory"] = "; ".join(parts)


# --- which is ahead -----------------------------------------------------------------------------------------------


def _ahead(rows: Sequence[StackRow]) -> list[Ahead]:
    """Which has taken the least time after 1, 2, 3 … steps, each from the number at which it takes the lead."""
    whole = [row for row in rows if None not in (row.first_ns, row.second_ns, row.steady_ns)]
    if len(rows) < 2 or len(whole) < len(rows):
        return []
    leaders: list[Ahead] = []
    leader: StackRow | None = None
    for steps in _lengths(whole):
        rivals = [row for row in whole if leader is None or row is leader or _is_apart(row, leader, steps)]
        best = min(rivals, key=lambda row: _until(row, steps))
        if best is not leader:
            leader = best
            leaders.append(Ahead(steps, best.trace))
    return leaders


def _until(row: StackRow, steps: int) -> int:
    """The time that so many steps take."""
    assert row.steady_ns is not None
    return sum(row.walls_ns[:steps]) + row.steady_ns * max(0, steps - len(row.walls_ns))


def _is_apart(row: StackRow, leader: StackRow, steps: int) -> bool:
    """Whether it is more than chance that one overtakes the other after so many steps, where steady steps decide."""
    if steps <= max(len(row.walls_ns), len(leader.walls_ns)):
        return True
    spread = max(row.steady_spread_ns or 0, leader.steady_spread_ns or 0)
    return (leader.steady_ns or 0) - (row.steady_ns or 0) > spread


def _lengths(rows: Sequence[StackRow]) -> Iterator[int]:
    """Lengths of a run at which another may take the lead."""
    unsteady = max(len(row.walls_ns) for row in rows)
    crossings = set(range(1, unsteady + 1))
    for slow in rows:
        for fast in rows:
            saved = (slow.steady_ns or 0) - (fast.steady_ns or 0)
            behind = _until(fast, unsteady) - _until(slow, unsteady)
            if saved > 0 and behind >= 0:
                crossings.add(unsteady + behind // saved + 1)
    yield from sorted(crossings)
