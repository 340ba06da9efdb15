"""What a log tells of compiles of which no other section speaks: the function, where it is, and how it went."""

from __future__ import annotations

from collections.abc import Iterator

from coldstep._util.figures import count, duration
from coldstep.model import Cache, Compile, Trace
from coldstep.vocabulary import CACHES
from coldstep_viewers.report.document import Part, Table, line, paragraph
from coldstep_viewers.report.ledger import from_log

_MAX_ROWS = 8
_WORDS = {"cache_hit": "loaded from a cache", "in_progress": "not known to have ended", "traced_only": "traced only"}
_TOLD = ("failed", "limit")
"""The outcomes that findings speak of."""


def compiled(trace: Trace, every: bool) -> Iterator[Part]:
    """A row for each function and outcome, the dearest first."""
    alike: dict[tuple[str, str], list[Compile]] = {}
    for row in rows(trace):
        alike.setdefault((row.function, _about(row)), []).append(row)
    dearest = sorted(alike.items(), key=lambda item: -sum(row.wall_ns for row in item[1]))
    shown = dearest if every else dearest[:_MAX_ROWS]
    if shown:
        yield Table("~>~", [
            [line(function, "strong"), line(_took(group)), line(_times(group, about))]
            for (function, about), group in shown
        ])  # fmt: skip
    if len(shown) < len(dearest):
        yield paragraph(f"and {len(dearest) - len(shown)} more; --all has them", "aside")


def rows(trace: Trace) -> list[Compile]:
    """The compiles of functions that were not compiled again, and did not fail."""
    by_id = {row.id: row.key for row in trace.compiles}
    again = {by_id[row.compile] for row in trace.recompiles}
    return (
        [row for row in trace.compiles if row.key not in again and row.outcome not in _TOLD] if from_log(trace) else []
    )


def _about(row: Compile) -> str:
    """Where the function is, how it went, and what caches on disk had."""
    place = row.location or row.caller
    where = f"{place.file}:{place.line}" if place is not None else ""
    return ", ".join(filter(None, (where, _WORDS.get(row.outcome, ""), *map(_cache, row.caches))))


def _cache(row: Cache) -> str:
    why = f", since {row.why_text}" if row.written is False and row.why_text else ""
    kept = {True: ", stored", False: f", not stored{why}"}.get(row.written, "") if row.written is not None else ""
    return f"{CACHES.get(row.layer, row.layer)}: {row.state}{kept}"


def _took(group: list[Compile]) -> str:
    ns = sum(row.wall_ns for row in group)
    return duration(ns) if ns else ""


def _times(group: list[Compile], about: str) -> str:
    times = count(len(group), "time") if len(group) > 1 else ""
    return ", ".join(filter(None, (times, about)))
