"""Compares runs: what compiles in each, as one row per function that two machines agree on, and how long it took."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from math import comb
from pathlib import PurePath

from coldstep._util.gathered import gathered
from coldstep._util.slotted import field, slotted
from coldstep.model import Compile, Recompile, Segment, Trace
from coldstep.places import below_packages
from coldstep.rows.variants import is_variant

# coldstep: "forward, resumed at line 14"
_RESUMED_AT = re.compile(r"(, resumed) at line \d+$")

Key = tuple[str, str, str]
"""A function in every run of a program: file, name and stack."""


@slotted
class Function:
    """All that one run compiled of one function."""

    file: str
    """Where it is defined."""
    name: str
    """What it is called."""
    stack: str
    """The compiler."""
    compiles: int = 0
    """How many variants it had."""
    recompiles: Counter[str] = field(default_factory=Counter)
    """How many for which cause, in words: "shape of batch['x']"."""
    graph_breaks: Counter[str] = field(default_factory=Counter)
    """How many places, by kind."""
    operations: list[int] = field(default_factory=list)
    """The sizes that its graphs had, in the order in which they first occurred."""
    cost_ns: int = 0
    """What they cost together."""
    phases: Counter[str] = field(default_factory=Counter)
    """What that time went to."""

    @property
    def key(self) -> Key:
        return self.file, self.name, self.stack


@slotted
class Summary:
    """What one run compiled, in the terms that another run can be compared in."""

    functions: dict[Key, Function] = field(default_factory=dict)
    """All that compiled."""
    settled: dict[str, int | None] = field(default_factory=dict)
    """By name of step: the step at which it settled; None where it did not, or was not run often enough."""


def summarize(trace: Trace) -> Summary:
    """The user's own functions that compiled. Of several processes, the one where a function cost most counts."""
    summary = Summary()
    for process in trace.processes:
        for key, row in _functions(trace, process.index).items():
            known = summary.functions.get(key)
            if known is None or (row.compiles, row.cost_ns) > (known.compiles, known.cost_ns):
                summary.functions[key] = row
    for settling in trace.settling:
        if settling.by == "step":
            at = settling.settled_at_step
            others = summary.settled.get(settling.name, at)
            summary.settled[settling.name] = None if at is None or others is None else max(at, others)
    return summary


def key_of(compile_: Compile) -> Key:
    """The function that was compiled, whatever the machine; a line may move, so a resumed frame has none."""
    return _portable(compile_), _RESUMED_AT.sub(r"\1", compile_.function), compile_.stack


def cause_of(row: Recompile) -> str:
    """A recompile's cause in words: "shape of batch['x']"."""
    return f"{row.cause} of {row.argument}" if row.argument else row.cause


def _functions(trace: Trace, process: int) -> dict[Key, Function]:
    by_key: dict[Key, Function] = {}
    variants = {row.id: row for row in trace.compiles if row.process == process and is_variant(row)}
    for row in variants.values():
        key = key_of(row)
        function = by_key.setdefault(key, Function(*key))
        function.compiles += 1
        function.cost_ns += row.wall_ns
        for segment in _outermost(row.segments):
            function.phases.update(segment.phases)
        for operations in (graph.get("operations") for graph in (row.ir or {}).values()):
            if operations is not None and operations not in function.operations:
                function.operations.append(operations)
    for again in trace.recompiles:
        if again.compile in variants:
            by_key[key_of(variants[again.compile])].recompiles[cause_of(again)] += 1
    for broken in trace.graph_breaks:
        if broken.compile in variants:
            by_key[key_of(variants[broken.compile])].graph_breaks[broken.kind] += 1
    return by_key


def _outermost(segments: Iterable[Segment]) -> Iterator[Segment]:
    """The segments that lie in no other one: their phases count no time twice."""
    ends: dict[str, int] = {}
    for row in sorted(segments, key=lambda row: (row.start_ns, -row.wall_ns)):
        end = row.start_ns + row.wall_ns
        if end > ends.get(row.thread, -1):
            ends[row.thread] = end
            yield row


def _portable(compile_: Compile) -> str:
    """The file of a function, as every machine knows it."""
    file = compile_.location.file if compile_.location else ""
    if not PurePath(file).is_absolute():
        return file
    return below_packages(file) or PurePath(file).name


# --- two runs ---------------------------------------------------------------------------------------------------


@slotted
class FunctionChange:
    """One function in two runs; None where a run did not compile it."""

    before: Function | None
    """In the one run; None where it did not compile there."""
    after: Function | None
    """In the other one."""

    @property
    def cost_ns(self) -> int:
        """How much longer its compiles took."""
        return (self.after.cost_ns if self.after else 0) - (self.before.cost_ns if self.before else 0)

    @property
    def counts_differ(self) -> bool:
        """Whether anything but time is different."""
        before, after = self.before, self.after
        return before is None or after is None or _counts(before) != _counts(after)


def _counts(row: Function) -> tuple[object, ...]:
    return row.compiles, row.recompiles, row.graph_breaks, row.operations


def function_changes(before: Summary, after: Summary) -> list[FunctionChange]:
    """Every function of either run, the largest change of cost first. One that moved to another file is the same."""
    pairs = [
        (key, before.functions.get(key), after.functions.get(key)) for key in {**after.functions, **before.functions}
    ]
    rows = [FunctionChange(old, new) for _, old, new in pairs if old and new]
    gone = _by_name(old for _, old, new in pairs if old and not new)
    come = _by_name(new for _, old, new in pairs if new and not old)
    for name in {**come, **gone}:
        olds, news = gone.get(name, []), come.get(name, [])
        if len(olds) == len(news) == 1:
            rows.append(FunctionChange(olds[0], news[0]))
        else:
            rows += [FunctionChange(old, None) for old in olds] + [FunctionChange(None, new) for new in news]
    return sorted(rows, key=lambda row: (-abs(row.cost_ns), not row.counts_differ))


def _by_name(functions: Iterable[Function]) -> dict[tuple[str, str], list[Function]]:
    return gathered(((row.name, row.stack), row) for row in functions)


# --- times ------------------------------------------------------------------------------------------------------


def confidence_of_more(these: Sequence[float], than: Sequence[float]) -> float:
    """How sure it is that the times of `these` are the longer ones (Mann-Whitney's test, exact, one-sided).

    Nothing is assumed of how times scatter; with three on either side it can reach 0.95.
    """
    wins = sum(this > other for this in these for other in than)
    ways = _ways(len(these), len(than))
    return 1 - sum(ways[wins:]) / comb(len(these) + len(than), len(these))


@cache
def _ways(n: int, m: int) -> tuple[int, ...]:
    """In how many orders of n and m times exactly 0, 1, … n*m pairs have the one of the n as the longer one."""
    if not n or not m:
        return (1,)
    longest_is_ours, longest_is_theirs = _ways(n - 1, m), _ways(n, m - 1)
    ways = [0] * (n * m + 1)
    for wins, number in enumerate(longest_is_ours):
        ways[wins + m] += number
    for wins, number in enumerate(longest_is_theirs):
        ways[wins] += number
    return tuple(ways)
