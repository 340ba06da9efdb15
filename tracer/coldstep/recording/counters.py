"""What a running trace has counted so far: for an experiment tracker, which wants numbers while the program trains."""

from __future__ import annotations

from collections.abc import Iterable

from coldstep.named_tuple import NamedTuple
from coldstep.rows.variants import LOADED


class Ended(NamedTuple):
    """A compile that has ended."""

    took_ns: int
    """How long it took so far: a backward may follow."""
    outcome: str
    """How it ended."""
    is_again: bool
    """Whether an earlier variant of its function was there."""
    is_nested: bool
    """Whether it began during another compile, whose time holds its own."""


def counters(compiles: Iterable[Ended]) -> dict[str, float]:
    """By name, each a number, from 0 up. Seconds end in `_s`."""
    rows = list(compiles)
    outermost = [row for row in rows if not row.is_nested]
    again = [row for row in rows if row.is_again]
    return {
        "compiles": len(outermost),
        "compile_s": sum(row.took_ns for row in outermost) / 1e9,
        "recompiles": len(again),
        "recompile_s": sum(row.took_ns for row in again) / 1e9,
        "cache_hits": sum(row.outcome == LOADED for row in outermost),
    }
