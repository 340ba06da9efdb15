"""The best K sizes to pad to: those with the least work in all, over the sizes that were seen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate


def best_buckets(sizes: Iterable[int], most: int) -> list[list[int]]:
    """For 1, 2 … up to `most` buckets (or as many as there are sizes), the buckets, ascending, with the least padded
    work: each size counts as the bucket above it. Exact, by dynamic programming over the sizes in order.
    """
    counts: dict[int, int] = {}
    for size in sizes:
        counts[size] = counts.get(size, 0) + 1
    ordered = sorted(counts)
    until = [0, *accumulate(counts[size] for size in ordered)]
    # work[n]: the least of the first n sizes with the buckets so far; cut[k][n]: how many the last bucket leaves out
    work = [0] + [ordered[n - 1] * until[n] for n in range(1, len(ordered) + 1)]
    cuts = [[0] * (len(ordered) + 1)]
    choices = [_buckets(ordered, cuts)]
    for _ in range(1, min(most, len(ordered))):
        work, cut = _with_one_more(ordered, until, work)
        cuts.append(cut)
        choices.append(_buckets(ordered, cuts))
    return choices if ordered else []


def padded(sizes: Iterable[int], buckets: Sequence[int]) -> list[int]:
    """Each size as the smallest of the ascending buckets that holds it."""
    return [next(bucket for bucket in buckets if bucket >= size) for size in sizes]


def _with_one_more(ordered: list[int], until: list[int], work: list[int]) -> tuple[list[int], list[int]]:
    """The least work with one bucket more, and where the last bucket then begins.

    Where the best cut of n sizes lies, that of fewer lies no higher: so halving the range takes n log n steps.
    """
    least, cut = [0] * len(work), [0] * len(work)
    ranges = [(1, len(work) - 1, 0, len(work) - 2)]
    while ranges:
        first, last, low, high = ranges.pop()
        if first > last:
            continue
        middle = (first + last) // 2
        top = ordered[middle - 1]
        least[middle], cut[middle] = min(
            (work[at] + top * (until[middle] - until[at]), at) for at in range(low, min(middle - 1, high) + 1)
        )
        ranges += [(first, middle - 1, low, cut[middle]), (middle + 1, last, cut[middle], high)]
    return least, cut


def _buckets(ordered: list[int], cuts: list[list[int]]) -> list[int]:
    bounds = []
    end = len(ordered)
    for cut in reversed(cuts):
        if end:
            bounds.append(ordered[end - 1])
            end = cut[end]
    return bounds[::-1]
