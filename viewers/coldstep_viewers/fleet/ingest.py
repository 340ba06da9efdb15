"""A batch of traces → its tables and its marker: the one piece of work that every engine runs, here or elsewhere."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from coldstep._util.figures import size as bytes_
from coldstep._util.gathered import gathered
from coldstep.errors import TraceError, first_line
from coldstep.loading import load
from coldstep.model import Trace
from coldstep.recording.garbage import none_collected
from coldstep_viewers.export.parquet import day_of
from coldstep_viewers.export.tables import run_of, tables
from coldstep_viewers.fleet import limits
from coldstep_viewers.fleet.places import FleetError, Object, place
from coldstep_viewers.fleet.store import (
    BROKEN,
    COPY,
    CUT,
    READ,
    TOO_COSTLY,
    UNREADABLE,
    Marker,
    Outcome,
    Store,
)

_HEAD = 512
"""Bytes that distinguish a trace from all others: it begins with random ids, and is only ever appended to."""
_MOST_BYTES = 1 << 30
_PIECE = 1 << 20
_MOST_OBJECTS, _BATCH_BYTES = 50, 16 << 20  # of a batch
_PAUSES_S = (0.5, 2.0)

Batch = tuple[Object, ...]
"""The traces to read."""


def ingest(batch: Batch, out: str) -> Marker:
    """Read the traces of a batch and commit its tables to the store at `out`.

    Raises OSError where that cannot be written.
    """
    outcomes: list[Outcome] = []
    by_head: dict[str, tuple[Outcome, dict[str, pa.Table]]] = {}
    for each in batch:
        outcome, made = read(each)
        outcomes.append(outcome)
        if made is None or outcome.head is None:
            continue
        other = by_head.get(outcome.head)
        if other is None or outcome.length > other[0].length:
            by_head[outcome.head] = outcome, made
            outcome = other[0] if other is not None else outcome
        if other is not None:
            outcome.state, outcome.why, outcome.run = COPY, f"the trace is {by_head[outcome.head or ''][0].uri}", None
    return Store(out).commit(sorted(_parts(list(by_head.values())).items()), outcomes)


def without(batch: Batch, out: str, why: str) -> Marker:
    """Commit of a batch only that nothing of it could be read."""
    return Store(out).commit((), [Outcome(o.uri, o.size, o.modified, TOO_COSTLY, why) for o in batch])


def _parts(loaded: list[tuple[Outcome, dict[str, pa.Table]]]) -> dict[tuple[str, str], list[pa.Table]]:
    """The tables of all traces by name and day, those of the earliest run first."""
    starts = [(made["runs"]["started"][0].as_py(), outcome.run or "", made) for outcome, made in loaded]
    in_time = sorted(starts, key=lambda row: row[:2])
    return gathered(((name, day_of(began)), table) for began, _, made in in_time for name, table in made.items())


def read(each: Object) -> tuple[Outcome, dict[str, pa.Table] | None]:
    """What becomes of an object, and its tables where it is a trace that can be read within the limits."""
    outcome = Outcome(each.uri, each.size, each.modified, READ)
    if each.size > _MOST_BYTES:
        return _not(outcome, TOO_COSTLY, f"it has {bytes_(each.size)}"), None
    try:
        with _file(each) as path:
            status = path.stat()
            if not stat.S_ISREG(status.st_mode):
                raise TraceError(f"{path} is no file")  # and may never end
            outcome.length = status.st_size
            run = run_of(path)
            with open(path, "rb") as file:
                outcome.head = hashlib.blake2b(file.read(_HEAD), digest_size=8).hexdigest()
            trace, made = _loaded(path, run)
    except TraceError as error:
        # its name here is no name of the object's
        return _not(outcome, BROKEN, str(error).replace(str(path), each.uri, 1).removeprefix(f"{each.uri} ")), None
    except limits.TooLong:
        return _not(outcome, TOO_COSTLY, f"it takes more than {limits.SECONDS} s of processor time"), None
    except MemoryError:
        return _not(outcome, TOO_COSTLY, f"it takes more than {bytes_(limits.BYTES)} of memory"), None
    except OSError as error:
        return _not(outcome, UNREADABLE, first_line(error)), None
    except Exception as error:  # a trace may come from anybody: whatever it does, the others are read
        return _not(outcome, BROKEN, f"is damaged: {first_line(error)}"), None
    outcome.run = run
    if any(process.ended in ("killed", "running") for process in trace.processes):
        outcome.state = CUT
        outcome.why = "it has no end: killed, still running, or not wholly there"
    return outcome, made


def _not(outcome: Outcome, state: str, why: str) -> Outcome:
    outcome.state, outcome.why = state, why
    return outcome


def _loaded(path: Path, run: str) -> tuple[Trace, dict[str, pa.Table]]:
    with none_collected(), limits.limited():
        trace = load(path, job=False)
        return trace, tables(trace, run)


@contextmanager
def _file(each: Object) -> Iterator[Path]:
    """The object as a file of this machine. Raises OSError where the store does not give it."""
    if "://" not in each.uri:
        yield Path(each.uri)
        return
    descriptor, name = tempfile.mkstemp(prefix="coldstep-", suffix=".pftrace")
    os.close(descriptor)
    path = Path(name)
    try:
        for pause in (*_PAUSES_S, None):
            try:
                _copy(each, path)
                break
            except OSError:  # a store that is busy says so
                if pause is None:
                    raise
                time.sleep(pause)
        yield path
    finally:
        path.unlink()


def _copy(each: Object, to: Path) -> None:
    try:
        at = place(each.uri)
    except FleetError as error:  # its address is good, for it was listed: the network did not say where it is
        raise OSError(str(error).removeprefix(f"{each.uri}: ")) from None
    with at.system.open_input_stream(at.path) as source, open(to, "wb") as file:
        while piece := source.read(_PIECE):
            file.write(piece)
        if file.tell() < each.size:
            raise OSError(f"{file.tell():,} of {each.size:,} bytes came")


def batches(objects: Sequence[Object], workers: int) -> list[Batch]:
    """Objects in batches of so many bytes that a worker has room for them, and enough of them for all workers."""
    each = max(1, min(_MOST_OBJECTS, -(-len(objects) // max(1, 2 * workers))))
    made: list[Batch] = []
    gathered: list[Object] = []
    room = _BATCH_BYTES
    for one in sorted(objects, key=lambda one: one.uri):
        if gathered and (one.size > room or len(gathered) == each):
            made.append(tuple(gathered))
            gathered, room = [], _BATCH_BYTES
        gathered.append(one)
        room -= one.size
    return [*made, tuple(gathered)] if gathered else made
