"""What has a key in common, put together: the keys in the order in which each is met first."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


def gathered(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """The values of each key, in their order; an empty list of one that is not there."""
    by_key = defaultdict[Key, list[Value]](list)
    for key, value in pairs:
        by_key[key].append(value)
    return by_key


def summed(pairs: Iterable[tuple[Key, int]]) -> Counter[Key]:
    """The sum of each key's numbers."""
    sums = Counter[Key]()
    for key, number in pairs:
        sums[key] += number
    return sums


def added_up(counts: Iterable[Mapping[Key, int]]) -> Counter[Key]:
    """The sum of each key's numbers in all of these."""
    return summed(pair for each in counts for pair in each.items())
