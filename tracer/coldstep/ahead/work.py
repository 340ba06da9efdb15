"""The work of a call by its size: as an earlier trace's steady steps show it, or else the size itself."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import accumulate

from coldstep._util.median import median, quartiles

_FEWEST = 3  # steps of a size, as a steady step's median has at least
_SPREAD = 0.2  # of the median, at most, between the quartiles of steps that are alike
_CHANCE = 0.1  # of a smaller size's steps: so much shorter may a larger one's be by chance


class NotMeasured(ValueError):
    """The trace does not show what a size costs; its text is the reason."""


def by_size(walls: Iterable[int | None], sizes: Iterable[int | None], beside: Iterable[Hashable]) -> dict[int, int]:
    """The median of the steady steps of each size that has enough that are alike. Of each call, its step where that
    was a steady one, its size, and all else that it is compiled for. Raises NotMeasured where these do not show what
    each size costs."""
    steps: dict[int, list[int]] = {}
    others = set()
    for wall, size, other in zip(walls, sizes, beside, strict=True):
        if size is not None:
            steps.setdefault(size, [])
            if wall is not None:
                steps[size].append(wall)
                others.add(other)
    if len(others) > 1:
        raise NotMeasured("more than this size varies between its steps")
    known = {size: round(median(took)) for size, took in sorted(steps.items()) if _are_alike(took)}
    for end in (min(steps), max(steps)):
        if end not in known:
            raise NotMeasured(f"the trace has too few steady steps of size {end} that took alike")
    for size, most in zip(known, accumulate(known.values(), max), strict=True):
        if known[size] < (1 - _CHANCE) * most:
            raise NotMeasured(f"in the trace, steps of size {size} took less than those of a smaller one")
    return known


def _are_alike(took: Sequence[int]) -> bool:
    if len(took) < _FEWEST:
        return False
    low, high = quartiles(took)
    return high - low <= _SPREAD * median(took)


def work_of(sizes: Iterable[int], known: Mapping[int, int]) -> dict[int, int]:
    """The work of each of these sizes: a steady step, no smaller size's being more; one that is not known lies between
    its neighbours. The size itself where nothing is known."""
    if not known:
        return {size: size for size in sizes}
    at, most = [*known], [*accumulate(known.values(), max)]
    work = {}
    for size in sizes:
        above = min(bisect(at, size), len(at) - 1)
        low, high = at[above - 1], at[above]
        work[size] = round(most[above - 1] + (most[above] - most[above - 1]) * (size - low) / (high - low))
    return work
