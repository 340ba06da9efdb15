"""Folds the steps of a process that only do again what the one before did, as they are read: of each its times stay."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from operator import attrgetter, le, lt

from coldstep.loading.row_types import Slice, StepRow
from coldstep.pftrace import layout
from coldstep.pftrace.repeats import Repeats, Template
from coldstep.rows.intervals import Alike, Shape
from coldstep.vocabulary import UNATTRIBUTED

FOLDED = "folded"
"""Stands in the ledger for the phases of steps that are folded: this very object, which no phase in a file is."""
_SHAPES = 16  # of steps: of a longer cycle each step is a run of its own
FEW_STEPS = 1_000
"""A trace of fewer is a plain list."""
Ledger = list[tuple[int, bool, str]]


class Folding:
    """Looks at each step of a process as it ends. `ledger` and `slices` are the process's own: what a folded step has
    added to them is taken out again."""

    def __init__(self, process: int, ledger: Ledger, slices: list[Slice]) -> None:
        self.runs: list[Alike] = []
        """The steps that are folded."""
        self._process = process
        self._ledger = ledger
        self._slices = slices
        self._since: tuple[int, int] | None = None  # the lengths of both as the last step ended, with nothing open
        self.ended = 0
        """When that was, whatever was open."""
        self._goes_on = False  # whether that step is the last of `runs`
        self._shapes: list[Shape] = []  # the latest last
        self._known: tuple[Template, Shape, list[int]] | None = None

    def take(self, step: StepRow, home: int, phase_ended: int | None, *, quiet: bool) -> bool:
        """Take in a step that has ended; whether it is folded. `quiet`: it compiled nothing, and nothing is open;
        `phase_ended`: when the last slice of the ledger ended."""
        shape, stamps = self._shape(step, home, phase_ended) if quiet else (None, [])
        if shape is not None and self._since is not None:
            self._fold(self._known_as(shape), step.n, stamps)
        self._goes_on = shape is not None
        self.ended, self._since = step.end, (len(self._ledger), len(self._slices)) if quiet else None
        return shape is not None

    def _shape(self, step: StepRow, home: int, phase_ended: int | None) -> tuple[Shape | None, list[int]]:
        if self._since is None or not step.n:
            return None, []
        first, first_slice = self._since
        changes, pieces = self._ledger[first:], self._slices[first_slice:]
        stamps = [ns for ns, _, _ in changes]
        is_complete = bool(first and changes) and all(written for _, written, _ in changes) and phase_ended == step.end
        if not is_complete or stamps[-1] != step.end or self._ledger[first - 1] != (self.ended, True, changes[-1][2]):
            return None, []
        if step.start not in stamps[:-1]:
            return None, []
        begin, phases = stamps.index(step.start), tuple(phase for _, _, phase in changes)
        if not _rise(begin, phases, self.ended, [[ns] for ns in stamps]):
            return None, []
        thread = int(step.args.get("tid", home))
        places = []
        for piece in pieces:
            if piece.track.tid != thread or piece.category == layout.COMPILE or piece.args:
                return None, []
            if piece.start not in stamps or piece.end not in stamps:
                return None, []
            places.append((piece.track, piece.name, piece.category, stamps.index(piece.start), stamps.index(piece.end)))
        return Shape(step.name, step.args, begin, phases, tuple(places)), stamps

    def _known_as(self, shape: Shape) -> Shape:
        for known in reversed(self._shapes):
            if known == shape:
                return known
        self._shapes = [*self._shapes[-_SHAPES:], shape]
        return shape

    def _fold(self, shape: Shape, n: int, stamps: list[int]) -> None:
        assert self._since is not None
        first, first_slice = self._since
        del self._ledger[first:], self._slices[first_slice:]
        last = self.runs[-1] if self._goes_on else None
        if last is not None and last.shape is shape and last.step + last.steps == n:
            last.append(stamps)
            self._ledger.pop()
        else:
            self.runs.append(Alike(shape, self._process, n, self.ended, [array("q", (ns,)) for ns in stamps]))
            self._ledger.append((self.ended, True, FOLDED))
        self._ledger.append((stamps[-1], True, shape.phases[-1]))

    def more(self, repeats: Repeats) -> bool:
        """Take in steps that came by the template of the last one that was folded; False where that is not sure."""
        last = self.runs[-1] if self._goes_on else None
        if last is None or last.step + last.steps != repeats.first:
            return False
        if self._since != (len(self._ledger), len(self._slices)):
            return False
        if self._known is None or self._known[0] is not repeats.template or self._known[1] is not last.shape:
            return False
        columns = [repeats.columns[column] for column in self._known[2]]
        if not _rise(last.shape.begin, last.shape.phases, self.ended, columns):
            return False
        for stamps, column in zip(last.stamps, columns, strict=True):
            stamps.extend(column)
        self.ended = columns[-1][-1]
        self._ledger[-1] = (self.ended, True, last.shape.phases[-1])
        return True

    def learn(self, template: Template, phases: list[int]) -> None:
        """The last step came by the packets of that template; `phases` are the columns of its times in which a phase
        begins."""
        if self._goes_on and len(phases) == len(self.runs[-1].stamps):
            self._known = template, self.runs[-1].shape, phases

    def fits(self, steps: list[StepRow], began: list[StepRow], start: int, stop: int) -> bool:
        """Whether everything in the file agrees with the steps that are folded, and they are many: each begins where
        another step ends, no other one is in it, and nothing in the ledger."""
        runs = sorted(self.runs, key=attrgetter("start"))
        many = runs and sum(run.steps for run in runs) >= FEW_STEPS
        if not many or runs[0].start < start or _end(runs[-1]) > stop:
            return False
        times = sorted(ns for ns, _, _ in self._ledger)
        if any(bisect_right(times, run.start) != bisect_left(times, _end(run)) for run in runs):
            return False
        spans = [(run.start, _end(run), True) for run in runs]
        inferred = is_inferred(runs[0])
        spans += [(step.start, step.end, False) for step in steps if step.is_inferred is inferred]
        spans.sort()
        for (_, end, _), (begins, _, is_run) in pairwise(spans):
            if begins < end or (is_run and begins != end):
                return False
        starts = [run.start for run in runs]
        for step in began:
            at = bisect_left(starts, step.start) - 1
            if at >= 0 and step.start < _end(runs[at]) and not holds(runs[at], step):
                return False
        return not spans[0][2]

    def put(self, runs: list[Alike]) -> None:
        """Take in steps that were put together elsewhere: nothing in the ledger lies in them."""
        for run in runs:
            self._ledger += [(run.start, True, FOLDED), (_end(run), True, run.shape.phases[-1])]
        self.runs += runs

    def unfold(self, runs: Collection[Alike]) -> Iterator[StepRow]:
        """Take these back: their parts go back into the ledger and the slices."""
        starts = {run.start for run in runs}
        gone = [phase is FOLDED and ns in starts for ns, _, phase in self._ledger]
        self._ledger[:] = [
            row for before, here, row in zip([False, *gone], gone, self._ledger, strict=False) if not (before or here)
        ]  # behind each there is one more: where it ends
        for run in runs:
            shape = run.shape
            for pair, stamps in enumerate(zip(*run.stamps, strict=True)):
                self._ledger += [(ns, True, phase) for ns, phase in zip(stamps, shape.phases, strict=True)]
                for track, name, category, begin, end in shape.pieces:
                    self._slices.append(Slice(track, name, category, stamps[begin], stamps[end], {}))
                yield StepRow(shape.name, run.step + pair, stamps[shape.begin], stamps[-1], dict(shape.args))
        self.runs = [run for run in self.runs if run.start not in starts]


def holds(run: Alike, step: StepRow) -> bool:
    """Whether a step is one of those."""
    return run.name == step.name and run.step <= step.n < run.step + run.steps


def is_inferred(run: Alike) -> bool:
    """Whether nothing in the program marks its steps."""
    return run.shape.args.get("source") == "inferred"


def _end(run: Alike) -> int:
    return run.stamps[-1][-1]


def _rise(begin: int, phases: Sequence[str], start: int, columns: Sequence[Sequence[int]]) -> bool:
    """Whether the stamps of each step follow each other. The last phase before its begin, and before its end, must
    last: one of no length there counts for what comes behind it."""
    strict = {_last_phase(begin, -1, phases), _last_phase(len(columns) - 1, begin, phases)}
    earlier: Sequence[int] = [start, *columns[-1][:-1]]
    for number, column in enumerate(columns):
        if not all(map(lt if number in strict else le, earlier, column)):
            return False
        earlier = column
    return True


def _last_phase(at: int, first: int, phases: Sequence[str]) -> int:
    """Which stamp ends the last phase before a stamp, `first` where nothing but unattributed time is before it."""
    while at > first and phases[at - 1] == UNATTRIBUTED:
        at -= 1
    return at
