"""Reads the builds outside of the frameworks' compilers, and those of other processes that this one waited for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from coldstep.loading.row_types import Slice
from coldstep.loading.slices import Locations, Rows
from coldstep.loading.time import Timeline
from coldstep.model import Build, BuildState
from coldstep.vocabulary import BUILDS

_WAIT = "build.wait"
_STATES = ("built", "loaded", "failed")


def build_slices(rows: Rows) -> Iterator[Slice]:
    """The slices of builds, those within another one left out."""
    ends: dict[int, int] = {}
    for piece in sorted(rows.slices, key=lambda piece: (piece.start, -piece.end)):
        if piece.category in BUILDS and piece.start >= ends.get(piece.track.tid, 0):
            ends[piece.track.tid] = piece.end
            yield piece


def builds(rows: Rows, time: Timeline, locations: Locations) -> list[Build]:
    """All builds of a process, in the order in which they began."""
    waits = [piece for piece in rows.slices if piece.category == _WAIT]
    rows_: list[Build] = []
    for piece in build_slices(rows):
        waited = any(_is_within(wait, piece) for wait in waits)
        state = str(piece.args.get("state", "failed"))
        rows_.append(
            Build(
                id=f"{rows.prefix}b{len(rows_)}",
                process=rows.process,
                name=str(piece.args.get("build", piece.name)),
                tool=str(piece.args.get("tool", "")),
                start_ns=piece.start - rows.start,
                wall_ns=piece.end - piece.start,
                state=cast(BuildState, "waited" if waited else state if state in _STATES else "failed"),
                location=locations.read(piece.args.get("caller")),
                interval=time.at(piece.start),
            )
        )
    return rows_


def _is_within(inner: Slice, outer: Slice) -> bool:
    return inner.track.tid == outer.track.tid and outer.start <= inner.start and inner.end <= outer.end
