"""Puts the traces of sources into a fleet's tables: the new ones, in batches, by one of the engines."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module

from coldstep._util.slotted import field, slotted
from coldstep_viewers.fleet import store, workers
from coldstep_viewers.fleet.ingest import Batch, batches
from coldstep_viewers.fleet.places import FleetError, Object, objects
from coldstep_viewers.fleet.store import Marker, Outcome, Store

LOCAL, RAY = "local", "ray"
ENGINES = (LOCAL, RAY)
Shard = tuple[int, int]
"""Which part of how many, from 0."""


@slotted
class Filled:
    """What became of a fleet's sources."""

    known: int = 0
    """Objects that were in the tables already, as they are now."""
    new: int = 0
    """Those that were not."""
    outcomes: list[Outcome] = field(default_factory=list)
    """Of the new ones."""
    rewritten: int = 0
    """Batches that were rewritten."""
    lost: list[str] = field(default_factory=list)
    """Why tables, or markers, that were there cannot be read."""


@slotted
class Progress:
    """How far it is."""

    done: int
    """Objects."""
    of: int
    done_bytes: int
    of_bytes: int


def fill(
    sources: Iterable[str], out: str, engine: str, shard: Shard | None, tell: Callable[[Progress], None]
) -> Filled:
    """Read what `sources` hold and the tables at `out` do not, and have the tables in order.

    Interrupted, it goes on where it was when it is run again. Of several that each do a `shard`, none puts the tables
    in order. Raises FleetError and OSError.
    """
    tables = Store(out)
    listed = {each.uri: each for source in sources for each in objects(source)}
    wanted = [
        each for each in listed.values() if shard is None or zlib.crc32(os.fsencode(each.uri)) % shard[1] == shard[0]
    ]
    filled = Filled()
    is_known = store.known(tables.readable(filled.lost))
    new = [each for each in wanted if not is_known(each)]
    filled.known, filled.new = len(wanted) - len(new), len(new)
    for marker in _read(new, out, engine, tell):
        filled.outcomes += marker.objects
    if shard is None and not filled.lost:  # else whose the files are is not known
        filled.rewritten = tables.tidy()
        tables.sweep()
    return filled


def _read(new: Sequence[Object], out: str, engine: str, tell: Callable[[Progress], None]) -> Iterator[Marker]:
    if not new:
        return
    made = _engine(engine)
    progress = Progress(0, len(new), 0, sum(each.size for each in new))
    for marker in made(batches(new, workers.number()), out):
        progress.done += len(marker.objects)
        progress.done_bytes += sum(each.size for each in marker.objects)
        tell(progress)
        yield marker


def _engine(name: str) -> Callable[[Sequence[Batch], str], Iterator[Marker]]:
    if name == LOCAL:
        return workers.run
    try:
        run: Callable[[Sequence[Batch], str], Iterator[Marker]] = import_module("coldstep_viewers.fleet.on_ray").run
    except ModuleNotFoundError as error:
        raise FleetError(f"--engine {name} needs {error.name}: pip install 'coldstep[{name}]'") from None
    return run
