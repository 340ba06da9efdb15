"""Puts together the inferred steps of a process in which nothing was seen but their times: of each its times stay."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from heapq import merge
from itertools import groupby, repeat
from operator import itemgetter

from coldstep.analysis.steps.inference import Story
from coldstep.loading import folding
from coldstep.loading.row_types import StepRow
from coldstep.loading.slices import Rows
from coldstep.model import UNATTRIBUTED
from coldstep.pftrace import layout
from coldstep.rows.intervals import Alike, Shape
from coldstep.rows.spans import Spans, by_end

_FEWEST = 2  # that are put together
_SAID = {"source": "inferred", "measures": "dispatch"}


def put(rows: Rows, stories: list[Story]) -> None:
    """Make the steps of these stories those of the process, in place of those that it had."""
    rows.unfold(rows.folded)
    steps = by_end([story.steps for story in stories])
    if not _may_be_together(rows, stories, steps):
        rows.steps = [_row(story, n, *span) for story in stories for n, span in enumerate(story.steps)]
        return
    rows.steps = []
    ledger = _ledger(rows)
    busy, whose = _busy(rows, ledger, steps.ends), _whose(stories)
    for number in range(len(stories)):
        busy[whose.index(number)] = True  # a first step is like no other
    runs: list[Alike] = []
    at, placed = 0, [0] * len(stories)
    for (is_busy, number), alike in groupby(zip(busy, whose, strict=True)):
        size, first, story = sum(1 for _ in alike), placed[number], stories[number]
        begins, ends = steps.begins[at : at + size], steps.ends[at : at + size]
        if is_busy or size < _FEWEST:
            rows.steps += map(_row, repeat(story, size), range(first, first + size), begins, ends)
        else:
            start = steps.ends[at - 1]
            phase = ledger[bisect_right(ledger, start, key=itemgetter(0)) - 1][2]
            shape = Shape(story.name, _SAID, 0, (phase, phase), ())
            runs.append(Alike(shape, rows.process, first, start, [begins, ends], by=story.by))
        placed[number] += size
        at += size
    rows.fold(runs)


def _may_be_together(rows: Rows, stories: list[Story], steps: Spans) -> bool:
    """Whether they are many, and all of the thread whose time the ledger is."""
    if rows.samples or len(steps) < max(1, folding.FEW_STEPS) or any(story.tid != rows.run.tid for story in stories):
        return False
    return rows.start <= steps.begins[0] and steps.ends[-1] <= rows.stop


def _ledger(rows: Rows) -> list[tuple[int, bool, str]]:
    """What is told of the time, in its order, from the trace's start on."""
    changes = [(rows.start, False, UNATTRIBUTED), *rows.ledger]
    if rows.ledger_end is not None:
        changes.append((rows.ledger_end, False, UNATTRIBUTED))
    return sorted(changes, key=itemgetter(0, 1))


def _busy(rows: Rows, ledger: list[tuple[int, bool, str]], ends: array[int]) -> bytearray:
    """For each step whether anything was seen in it, or since the one before: another phase of its thread, work of
    any."""
    busy = bytearray(len(ends))
    for begin, end in _seen(rows, ledger):
        first, last = bisect_left(ends, begin), bisect_right(ends, end) + 1
        busy[first:last] = b"\x01" * len(busy[first:last])
    return busy


def _seen(rows: Rows, ledger: list[tuple[int, bool, str]]) -> Iterator[tuple[int, int]]:
    yield from ((ns, ns) for ns, _, _ in ledger)
    yield from ((piece.start, piece.end) for piece in rows.slices if piece.is_phase or piece.category == layout.COMPILE)


def _whose(stories: list[Story]) -> array[int]:
    """Of each step, in the order of their ends, which story it is of."""
    if len(stories) == 1:
        return array("l", bytes(len(stories[0].steps) * array("l").itemsize))
    ends = (zip(story.steps.ends, repeat(number)) for number, story in enumerate(stories))
    return array("l", map(itemgetter(1), merge(*ends)))


def _row(story: Story, n: int, begin: int, end: int) -> StepRow:
    return StepRow(story.name, n, begin, end, {**_SAID, "tid": story.tid}, story.by)
