"""Reads the rows of builds, and those of weights, checkpoints and downloads."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import cast

from coldstep.loading.row_types import Slice
from coldstep.loading.slices import Locations, Rows
from coldstep.loading.time import Timeline
from coldstep.model import Build, BuildState, Transfer
from coldstep.pftrace.layout import READ
from coldstep.rows.intervals import Alike, end_ns, parts
from coldstep.vocabulary import BUILDS, TRANSFERS

_WAIT = "build.wait"
_STATES = ("built", "loaded", "failed")
_LEAST_COPY_NS = 10_000_000  # a module's first load that took less has a phase, and no row


def _outermost(rows: Rows, phases: Collection[str]) -> Iterator[Slice]:
    """The slices of these phases, those within another one left out."""
    ends: dict[int, int] = {}
    for piece in sorted(rows.slices, key=lambda piece: (piece.start, -piece.end)):
        if piece.category in phases and piece.start >= ends.get(piece.track.tid, 0):
            ends[piece.track.tid] = piece.end
            yield piece


def builds(rows: Rows, time: Timeline, locations: Locations) -> Iterator[Build]:
    """All builds of a process, in the order in which they began."""
    waits = [piece for piece in rows.slices if piece.category == _WAIT]
    for number, piece in enumerate(_outermost(rows, BUILDS)):
        waited = any(_is_within(wait, piece) for wait in waits)
        state = str(piece.args.get("state", "failed"))
        yield Build(
            id=f"{rows.prefix}b{number}",
            process=rows.process,
            name=str(piece.args.get("build", piece.name)),
            tool=str(piece.args.get("tool", "")),
            start_ns=piece.start - rows.start,
            wall_ns=piece.end - piece.start,
            state=cast(BuildState, "waited" if waited else state if state in _STATES else "failed"),
            location=locations.read(piece.args.get("caller")),
            interval=time.at(piece.start),
        )


def transfers(rows: Rows, time: Timeline, locations: Locations) -> list[Transfer]:
    """All that a process read, wrote and fetched, in the order in which it began: nested ones count once."""
    return [
        Transfer(
            process=rows.process,
            phase=piece.category,
            name=str(piece.args.get("what") or ""),
            bytes=size if isinstance(size := piece.args.get("bytes"), int) else None,
            mapped=bool(piece.args.get("mapped")),
            read_later_bytes=_read(rows, time, piece),
            start_ns=piece.start - rows.start,
            wall_ns=piece.end - piece.start,
            location=locations.read(piece.args.get("caller")),
            interval=time.at(piece.start),
        )
        for piece in _outermost(rows, TRANSFERS)
        if not piece.args.get("copied") or piece.end - piece.start >= _LEAST_COPY_NS
    ]


def _read(rows: Rows, time: Timeline, piece: Slice) -> int | None:
    """What the process had read from disk from the end of a mapping on until its first step was over; what it had while
    it copied."""
    if not piece.args.get("mapped"):
        return read if isinstance(read := piece.args.get("read"), int) else None
    since = piece.end
    points = sorted(rows.counters.get(READ, []))  # of two threads
    if not points:
        return None
    first = next((part for part in parts(time.intervals) if isinstance(part, Alike) or part.kind == "step"), None)
    over = rows.start + end_ns(first) if first is not None else points[-1][0]
    before, after = ([value for ns, value in points if ns <= at] for at in (since, max(over, since)))
    return round(max(0.0, after[-1] - (before or [points[0][1]])[-1])) if after else None


def _is_within(inner: Slice, outer: Slice) -> bool:
    return inner.track.tid == outer.track.tid and outer.start <= inner.start and inner.end <= outer.end
