"""Stretches of time, of which there may be a million: two numbers each, and no objects."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice
from operator import itemgetter, le

Span = tuple[int, int]
"""When it began and ended."""


class Spans:
    """Some, in the order in which they were added."""

    __slots__ = ("begins", "ends")

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        self.begins = array("q")
        self.ends = array("q")
        self.extend(spans)

    def __len__(self) -> int:
        return len(self.ends)

    def __iter__(self) -> Iterator[Span]:
        return zip(self.begins, self.ends, strict=True)

    def __getitem__(self, at: int) -> Span:
        return self.begins[at], self.ends[at]

    def append(self, span: Span) -> None:
        """One more."""
        self.begins.append(span[0])
        self.ends.append(span[1])

    def extend(self, spans: Iterable[Span]) -> None:
        """Some more."""
        if isinstance(spans, Spans):
            self.begins.extend(spans.begins)
            self.ends.extend(spans.ends)
            return
        for span in spans:
            self.append(span)

    def in_order(self) -> Spans:
        """Those in the order of their ends."""
        return self if self.rise else Spans(sorted(self, key=itemgetter(1)))

    @property
    def rise(self) -> bool:
        """Whether each begins, and ends, no earlier than the one before."""
        return all(all(map(le, times, islice(times, 1, None))) for times in (self.begins, self.ends))


def by_end(several: Sequence[Spans]) -> Spans:
    """All of them in the order of their ends, in which each has its own."""
    return several[0] if len(several) == 1 else Spans(merge(*several, key=itemgetter(1)))


def covered(spans: Iterable[Span]) -> int:
    """How long at least one of them goes on."""
    total = at = 0
    for start, end in sorted(spans):
        total += max(0, end - max(start, at))
        at = max(at, end)
    return total


def ends_of(several: Sequence[Spans]) -> array[int]:
    """When they end, in order of time."""
    return several[0].ends if len(several) == 1 else array("q", merge(*(spans.ends for spans in several)))
