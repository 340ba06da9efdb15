"""The median of some figures, and how far they spread: what `statistics` says, without the 2 ms of its import.

A traced process asks for it as its trace ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def median(values: Iterable[float]) -> float:
    """Raises IndexError where there are none."""
    found = sorted(values)
    half = len(found) // 2
    return found[half] if len(found) % 2 else (found[half - 1] + found[half]) / 2


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """The first and the third, of at least two values: the least is the 0th percentile, the largest the 100th."""
    found = sorted(values)

    def at(quarter: int) -> float:
        below, part = divmod(quarter * (len(found) - 1), 4)
        return (found[below] * (4 - part) + found[below + 1] * part) / 4

    return at(1), at(3)
