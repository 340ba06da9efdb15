"""The intervals of a long trace as one sequence, in which steps that are alike take a few numbers each, and no rows.

Of a million steps that did the same, all but their times is held once. Whoever goes through `Trace.intervals` is given
rows like any other, made when they are asked for; what must be quick goes through `parts`.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, compress, repeat
from operator import sub
from typing import overload

from coldstep._util.gathered import summed
from coldstep._util.slotted import field, slotted
from coldstep.events import Args
from coldstep.model import InferredBy, Interval, Measures, StepLabel
from coldstep.pftrace.layout import Track
from coldstep.vocabulary import IMPORTS, UNATTRIBUTED


@slotted
class Shape:
    """What steps that are alike have in common. A step's stamps are the times at which its process went over to another
    phase, from the end of the step before on; the last is its end."""

    name: str
    """The step's name."""
    args: Args
    """Its slice's arguments."""
    begin: int
    """Which of the stamps is the step's begin."""
    phases: tuple[str, ...]
    """The phase from each stamp on."""
    pieces: tuple[tuple[Track, str, str, int, int], ...]
    """The slices of its thread: track, name, category, and the stamps at which they begin and end."""


@slotted
class Alike:
    """Steps that follow each other and differ only in their times, each with the interval before it.

    A pair is such an interval and its step; `index` and `step` are the first pair's.
    """

    shape: Shape
    process: int
    step: int
    """The ordinal of the first step."""
    start: int
    """The end of the step before, on the trace's own clock, as all stamps."""
    stamps: list[array[int]]
    """Of each pair the first stamp, of each the second, and so on."""
    index: int = 0
    """That of the first interval."""
    zero: int = 0
    """Where the time begins that rows count from."""
    measures: Measures | None = None
    python_dispatches: int | None = None
    label: StepLabel | None = None
    """Of each of the steps; the fields below are of each of the intervals."""
    rss_bytes: int | None = None
    device_bytes: int | None = None
    by: InferredBy | None = None
    """What the steps were inferred from, where nothing in the program marks them."""

    def __len__(self) -> int:
        return 2 * self.steps

    @property
    def steps(self) -> int:
        """How many they are."""
        return len(self.stamps[-1])

    @property
    def name(self) -> str:
        """The name of the steps."""
        return self.shape.name

    @property
    def start_ns(self) -> int:
        """When the first interval begins."""
        return self.start - self.zero

    @property
    def end_ns(self) -> int:
        """When the last step ends."""
        return self.stamps[-1][-1] - self.zero

    def append(self, stamps: Iterable[int]) -> None:
        """One more pair."""
        for column, ns in zip(self.stamps, stamps, strict=True):
            column.append(ns)

    def walls(self) -> array[int]:
        """The length of each step."""
        return array("q", map(sub, self.stamps[-1], self.stamps[self.shape.begin]))

    def gaps(self) -> array[int]:
        """The length of what lies before each step."""
        return array("q", map(sub, self.stamps[self.shape.begin], chain((self.start,), self.stamps[-1])))

    def spent(self, *, in_steps: bool) -> Counter[str]:
        """The nanoseconds of each phase, unattributed included, in all steps, or in all intervals between these."""
        begin, totals = self.shape.begin, [sum(column) for column in self.stamps]
        since = totals[begin] if in_steps else self.start + totals[-1] - self.stamps[-1][-1]
        spent: Counter[str] = Counter()
        for phase, at in self._stretches(in_steps):
            spent[phase] += totals[at] - since
            since = totals[at]
        return spent

    def at(self, ns: int) -> int:
        """Which of the intervals (from 0) that time lies in."""
        stamp = ns + self.zero
        pair = min(bisect_right(self.stamps[-1], stamp), self.steps - 1)
        return 2 * pair + (stamp >= self.stamps[self.shape.begin][pair])

    def row(self, at: int) -> Interval:
        """One of the intervals."""
        pair, is_step = divmod(at, 2)
        begin = self.stamps[self.shape.begin][pair]
        start = begin if is_step else self._before(pair)
        end = self.stamps[-1][pair] if is_step else begin
        index, span = self.index + at, (start - self.zero, end - start)
        made = Interval(index, self.process, "between", None, None, "marked", None, None, *span)
        made.rss_bytes, made.device_bytes = self.rss_bytes, self.device_bytes
        if is_step:
            made.kind, made.step, made.name = "step", self.step + pair, self.shape.name
            made.source, made.inferred_by = "inferred" if self.by is not None else "marked", self.by
            made.label, made.measures, made.python_dispatches = self.label, self.measures, self.python_dispatches
        for phase, stamp in self._stretches(bool(is_step)) if end > start else ():
            until = self.stamps[stamp][pair]
            if phase == UNATTRIBUTED:
                made.unattributed_ns += until - start
            else:
                made.phases[phase] = made.phases.get(phase, 0) + until - start
            start = until
        return made

    def those(self, wanted: Iterable[bool]) -> Alike | None:
        """Some of the steps; what lies between them is not theirs. None where there is none."""
        flags = list(wanted)
        if all(flags) or not any(flags):
            return self if all(flags) else None
        columns = [array("q", compress(column, flags)) for column in self.stamps]
        made = self.part(0, self.steps)
        made.stamps, made.start = columns, columns[0][0]
        return made

    def lasted(self, phase: str) -> Iterable[int]:
        """How much of each step a phase took."""
        ends = [(at - 1, at) for name, at in self._stretches(in_step=True) if name == phase]
        spans = (map(sub, self.stamps[end], self.stamps[begin]) for begin, end in ends)
        return map(sum, zip(*spans, strict=True)) if ends else repeat(0, self.steps)

    def rows(self) -> Iterator[Interval]:
        """All of the intervals."""
        return map(self.row, range(len(self)))

    def part(self, first: int, last: int) -> Alike:
        """The pairs from one to another, that one left out."""
        return Alike(
            self.shape, self.process, self.step + first, self._before(first),
            [column[first:last] for column in self.stamps], self.index + 2 * first, self.zero, self.measures,
            self.python_dispatches, self.label, self.rss_bytes, self.device_bytes, self.by,
        )  # fmt: skip

    def _before(self, pair: int) -> int:
        return self.stamps[-1][pair - 1] if pair else self.start

    def _stretches(self, in_step: bool) -> Iterator[tuple[str, int]]:
        """The phases of an interval in their order, each with the stamp at which it ends."""
        begin, phases = self.shape.begin, self.shape.phases
        if in_step:
            yield from zip(phases[begin:-1], range(begin + 1, len(phases)), strict=True)
        else:
            yield from zip((phases[-1], *phases[:begin]), range(begin + 1), strict=True)


Part = Interval | Alike


def unit(step: Part) -> str:
    """What one of a kind of step is called: a call, where it was inferred and no training is known of it."""
    by = step.by if isinstance(step, Alike) else step.inferred_by
    return "call" if by is not None and by.rule == "call" else "step"


class _OfParts(Sequence[Interval]):
    """Rows that are kept in parts, some of them made when they are asked for."""

    __slots__ = ()
    parts: list[Part]
    _firsts: list[int]  # the position of each part's first row
    _len: int

    def __len__(self) -> int:
        return self._len

    @overload
    def __getitem__(self, at: int) -> Interval: ...
    @overload
    def __getitem__(self, at: slice) -> list[Interval]: ...
    def __getitem__(self, at: int | slice) -> Interval | list[Interval]:
        if isinstance(at, slice):
            return [self[position] for position in range(*at.indices(self._len))]
        position = at + self._len if at < 0 else at
        if not 0 <= position < self._len:
            raise IndexError(at)
        number = bisect_right(self._firsts, position) - 1
        part = self.parts[number]
        return self._row(part, position - self._firsts[number]) if isinstance(part, Alike) else part

    def _row(self, part: Alike, at: int) -> Interval:
        """The row of a part that stands there in it."""
        raise NotImplementedError


@slotted
class Intervals(_OfParts):
    """All intervals, in order. To change one that is alike others, take it `apart` before."""

    parts: list[Part]
    """The intervals in their order, those of steps that are alike in one."""
    _firsts: list[int] = field(init=False)
    _starts: list[int] = field(init=False)
    _len: int = field(init=False)

    def __post_init__(self) -> None:
        self._firsts = [part.index for part in self.parts]
        self._starts = [part.start_ns for part in self.parts]
        self._len = sum(len(part) if isinstance(part, Alike) else 1 for part in self.parts)

    def _row(self, part: Alike, at: int) -> Interval:
        return part.row(at)

    def __iter__(self) -> Iterator[Interval]:
        for part in self.parts:
            if isinstance(part, Alike):
                yield from part.rows()
            else:
                yield part

    def at(self, ns: int) -> int:
        """The index of the interval in which that time lies."""
        part = self.parts[max(0, bisect_right(self._starts, ns) - 1)]
        return part.index + (part.at(ns) if isinstance(part, Alike) else 0)

    def apart(self, indices: Iterable[int]) -> None:
        """Make rows of these, so that changes to them stay."""
        wanted: dict[int, set[int]] = {}
        for index in indices:
            number = bisect_right(self._firsts, index) - 1
            part = self.parts[number]
            if isinstance(part, Alike):
                wanted.setdefault(number, set()).add((index - part.index) // 2)
        if wanted:
            self.parts = [
                piece
                for number, part in enumerate(self.parts)
                for piece in (_apart(part, sorted(wanted[number])) if isinstance(part, Alike) and number in wanted
                              else [part])
            ]  # fmt: skip
            self.__post_init__()


def _apart(alike: Alike, pairs: list[int]) -> Iterator[Part]:
    at = 0
    for pair in pairs:
        if pair > at:
            yield alike.part(at, pair)
        yield from (alike.row(2 * pair), alike.row(2 * pair + 1))
        at = pair + 1
    if at < alike.steps:
        yield alike.part(at, alike.steps)


class Steps(_OfParts):
    """The steps of one kind, in order."""

    def __init__(self, parts: Iterable[Part] = ()) -> None:
        self.parts: list[Part] = []
        """As of `Intervals`."""
        self._firsts: list[int] = []
        self._len = 0
        for part in parts:
            self.add(part)

    def add(self, part: Part) -> None:
        """One more, or those of some that are alike."""
        self._firsts.append(self._len)
        self.parts.append(part)
        self._len += part.steps if isinstance(part, Alike) else 1

    def _row(self, part: Alike, at: int) -> Interval:
        return part.row(2 * at + 1)

    def __iter__(self) -> Iterator[Interval]:
        for part in self.parts:
            if isinstance(part, Alike):
                yield from (part.row(at) for at in range(1, len(part), 2))
            else:
                yield part

    def alone(self) -> list[Interval]:
        """Those that are not just like the one before: all that compiled, and others."""
        return [part for part in self.parts if isinstance(part, Interval)]

    def walls(self) -> array[int]:
        """The length of each."""
        walls = array("q")
        for part in self.parts:
            if isinstance(part, Alike):
                walls.extend(part.walls())
            else:
                walls.append(part.wall_ns)
        return walls

    def part(self, first: int, last: int) -> Steps:
        """Those from one position to another, that one left out."""
        steps = Steps()
        for begins, part in zip(self._firsts, self.parts, strict=True):
            if isinstance(part, Alike):
                low, high = max(0, first - begins), min(part.steps, last - begins)
                if low < high:
                    steps.add(part.part(low, high))
            elif first <= begins < last:
                steps.add(part)
        return steps

    def numbered(self, n: int) -> Interval | None:
        """The step with that ordinal."""
        number = bisect_right(self.parts, n, key=lambda part: part.step or 0) - 1
        part = self.parts[number] if number >= 0 else None
        if isinstance(part, Alike):
            return part.row(2 * (n - part.step) + 1) if n < part.step + part.steps else None
        return part if part is not None and part.step == n else None

    def labelled(self, label: StepLabel | None) -> Steps:
        """Those with that label."""
        return Steps(part for part in self.parts if part.label == label)

    def spent(self) -> Counter[str]:
        """The nanoseconds of each phase, unattributed included."""
        return phases_of(self.parts)


def parts(intervals: Sequence[Interval]) -> Sequence[Part]:
    """The intervals in their order, those of steps that are alike in one."""
    return intervals.parts if isinstance(intervals, Intervals | Steps) else intervals


def joined(several: Iterable[Sequence[Interval]]) -> Sequence[Interval]:
    """One sequence of them all."""
    all_parts = [part for intervals in several for part in parts(intervals)]
    rows = [part for part in all_parts if isinstance(part, Interval)]
    return rows if len(rows) == len(all_parts) else Intervals(all_parts)


def alone(intervals: Sequence[Interval]) -> Iterator[Interval]:
    """Those that are not just like the ones before: all in which something compiled, and others."""
    return (part for part in parts(intervals) if isinstance(part, Interval))


def kinds(intervals: Sequence[Interval], unfinished: int | None = None) -> dict[tuple[int, str], Steps]:
    """The steps of each process and name, in order, but for the one with the index `unfinished`."""
    by_kind: defaultdict[tuple[int, str], Steps] = defaultdict(Steps)
    for part in parts(intervals):
        if isinstance(part, Alike) or (part.kind == "step" and part.index != unfinished):
            by_kind[part.process, part.name or ""].add(part)
    return dict(by_kind)


def imports_as_one(phases: Mapping[str, int]) -> Counter[str]:
    """Nanoseconds by phase, those of all packages' imports as one."""
    return summed((IMPORTS if name.startswith("import.") else name, ns) for name, ns in phases.items())


def phases_of(intervals: Iterable[Part], *, between: bool = False) -> Counter[str]:
    """The nanoseconds of each phase, unattributed included; of steps that are alike those of the steps themselves, and
    what lies `between` them, too, if that is asked for."""
    phases: Counter[str] = Counter()
    for part in intervals:
        if isinstance(part, Alike):
            phases.update(part.spent(in_steps=True))
            if between:
                phases.update(part.spent(in_steps=False))
        else:
            phases.update(part.phases)
            phases[UNATTRIBUTED] += part.unattributed_ns
    return phases


def before(intervals: Iterable[Part], index: int) -> list[Part]:
    """Those with an index below that one."""
    earlier: list[Part] = []
    for part in intervals:
        if isinstance(part, Alike) and part.index < index < part.index + len(part):
            pairs, rest = divmod(index - part.index, 2)
            earlier += [part.part(0, pairs)] if pairs else []
            earlier += [part.row(2 * pairs)] if rest else []
        elif part.index < index:
            earlier.append(part)
    return earlier


def end_ns(part: Part) -> int:
    """When it ends."""
    return part.end_ns if isinstance(part, Alike) else part.start_ns + part.wall_ns
