"""The median of some figures, and how far they spread: as `statistics` has them, without the 2 ms of its import.

A traced process asks for it as its trace ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def median(values: Iterable[float]) -> float:
    """Raises IndexError where there are none."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """The first and the third, of at least two values: the least is the 0th percentile, the largest the 100th."""
    ordered = sorted(values)

    def at(quarter: int) -> float:
        below, part = divmod(quarter * (len(ordered) - 1), 4)
        return (ordered[below] * (4 - part) + ordered[below + 1] * part) / 4

    return at(1), at(3)
