"""The tables of a fleet: Parquet files in a folder per table and day, and markers that list those that count.

A batch of traces is there once its marker is, which is written last. Readers take the files from the markers and never
by a pattern: what a dead writer left has none. A marker may replace others, so that batches are rewritten, smaller ones
into larger, while somebody reads them. Where two writers read one trace, the longer of the two counts, and one of those
that are alike: the rows name their batch.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs

from coldstep._util.expressions import expression
from coldstep._util.labels import VARIABLES, is_name
from coldstep._util.slotted import slotted
from coldstep.errors import first_line
from coldstep_viewers.export.tables import LABEL, SCHEMAS
from coldstep_viewers.fleet.places import FleetError, Object, Place, place
from coldstep_viewers.fleet.writers import claimed, locked

SCHEMA = "coldstep-tables/1"
MARKERS = "_batches"
READ, CUT, BROKEN, TOO_COSTLY, UNREADABLE, COPY = "read", "cut", "broken", "too_costly", "unreadable", "copy"
"""What became of an object: its rows are there; they are, up to where it ends without an end; it is no trace, or a
damaged one; it took too much; the store did not give it, and it is asked for again; the trace is there already."""

_SMALL_BYTES, _MOST_SMALL, _GROUP_BYTES = 32 << 20, 16, 128 << 20
_GRACE_S = 86_400  # for whoever reads what was replaced
_MOST_LABELS = 200  # columns in all
_TEXT = pa.string()
_ORDER = [("started", "ascending"), ("run", "ascending")]
_DIGITS = 20  # more than a run has: what `coldstep export` writes into the same folders is never taken for ours
# coldstep: "0123abcd"
_NAME = expression(r"[0-9a-f]+")
# coldstep: "runs/date=2026-11-20/0123abcd.parquet"
_FILE = expression(r"(\w+)/date=(\d{4}-\d\d-\d\d)/([0-9a-f]+)\.parquet")
# coldstep: "_batches/0123456789abcdef0123.json.0123abcd"
# coldstep: "_batches/0123456789abcdef0123.begun"
_UNFINISHED = expression(rf"{MARKERS}/([0-9a-f]{{{_DIGITS}}})\.(?:json\.[0-9a-f]+|begun(?:\.[0-9a-f]+)?)")
_BEGUN = ".begun"
_ALWAYS = {"runs", "processes"}  # the tables in which each trace has rows


@slotted
class Outcome:
    """What became of one object of a source."""

    uri: str
    size: int
    modified: int
    state: str
    """One of those above."""
    why: str | None = None
    """In words, of all but `read`."""
    head: str | None = None
    """A hash of how it begins: the same trace, while it grows."""
    run: str | None = None
    """What its rows are called; None where it has none."""
    length: int = 0
    """How much of it was read."""


@slotted
class Marker:
    """That a batch is whole."""

    batch: str
    """Its name, and that of its files."""
    files: list[str] = field(default_factory=list)
    """Below the tables' folder."""
    objects: list[Outcome] = field(default_factory=list)
    """What it was made of."""
    labels: list[str] = field(default_factory=list)
    """The labels that its runs have columns for."""
    replaces: list[str] = field(default_factory=list)
    """The batches that no longer count."""
    bytes: int = 0
    """Of its files."""
    committed: float = 0.0
    """When, in seconds since 1970: by the clock of its writer, and of one that was read, by that of the store."""


Parts = Iterable[tuple[tuple[str, str], Sequence[pa.Table]]]
"""Pieces of tables by table and day, which may be made as they are written."""


class Store:
    """The tables at an address. Raises FleetError for another address."""

    def __init__(self, text: str) -> None:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise FleetError(f"{text}: the folder of tables needs a name in UTF-8") from None
        self.text = text
        self._place = place(text)
        self._system = self._place.system

    # --- writing ------------------------------------------------------------------------------------------------------

    def commit(self, batch: str, parts: Parts, objects: list[Outcome], replaces: Sequence[str] = ()) -> Marker:
        """Write the files of a batch, then its marker. Raises OSError."""
        marker = Marker(batch, objects=objects, replaces=list(replaces), committed=time.time())
        self._put(begun := f"{MARKERS}/{batch}{_BEGUN}", b"\n")  # should this process die: whose the files are
        for (name, day), tables in parts:
            table = pa.concat_tables(tables, promote_options="default")
            if not table.num_rows:
                continue
            if name == "runs":
                table, labels = _with_few_labels(table)
                marker.labels = sorted({*marker.labels, *labels})
            self._write(table, batch, file := f"{name}/date={day}/{batch}.parquet")
            marker.files.append(file)
            marker.bytes += self._system.get_file_info(self._place.below(file)).size or 0
        self._put(f"{MARKERS}/{batch}.json", json.dumps({"schema": SCHEMA, **asdict(marker)}).encode())
        self._delete(begun)
        return marker

    def _write(self, table: pa.Table, batch: str, file: str) -> None:
        path = self._place.below(file)
        self._make_folder(path)
        with_batch = table.append_column("batch", pa.repeat(pa.scalar(batch, _TEXT), table.num_rows))
        pq.write_table(with_batch, path, filesystem=self._system, compression="zstd")

    def _put(self, name: str, content: bytes) -> None:
        """Whole or not at all: an object store does so by itself."""
        path = self._place.below(name)
        self._make_folder(path)
        to = f"{path}.{secrets.token_hex(4)}" if self._place.is_local else path
        with self._system.open_output_stream(to) as file:
            file.write(content)
        if to != path:
            self._system.move(to, path)

    def _make_folder(self, path: str) -> None:
        if self._place.is_local:
            self._system.create_dir(path.rpartition("/")[0], recursive=True)

    def written_by_us(self, who: str) -> AbstractContextManager[None]:
        """While this process writes: no other of the same name may. Raises FleetError."""
        folder = Place(self._system, self._place.below(MARKERS))
        return (locked if folder.is_local else claimed)(folder, who, self.text)

    # --- reading ------------------------------------------------------------------------------------------------------

    def markers(self, lost: list[str] | None = None) -> list[Marker]:
        """All that are there, those of batches that were replaced, too. Raises FleetError; one that cannot be read is
        left out, and the reason goes to `lost`."""
        try:
            infos = self._system.get_file_info(
                fs.FileSelector(self._place.below(MARKERS), recursive=False, allow_not_found=True)
            )
        except (OSError, pa.ArrowException) as error:
            raise FleetError(f"cannot read {self.text}: {error}") from None
        readable = []
        for info in infos:
            if info.extension != "json":
                continue
            name = f"{self.text}/{MARKERS}/{info.base_name}"
            # an object store keeps an empty one of a writer that was interrupted just then
            if not info.size:
                if lost is not None:
                    lost.append(f"{name} is empty: its writer died; coldstep fleet load reads its traces again")
                continue
            try:
                with suppress(FileNotFoundError), self._system.open_input_stream(info.path) as file:
                    marker = _marker(file.readall(), name, info.base_name[:-5])
                    marker.committed = (info.mtime_ns or 0) / 1e9
                    readable.append(marker)
            except (FleetError, OSError) as error:
                if lost is None:
                    raise
                lost.append(str(error) if isinstance(error, FleetError) else f"cannot read {name}: {error.strerror}")
        return sorted(readable, key=lambda marker: marker.batch)

    def readable(self, lost: list[str]) -> list[Marker]:
        """The batches that count, and whose tables are there; for each other one, `lost` gets the reason. Raises
        FleetError."""
        complete = []
        for marker in live(self.markers(lost)):
            if why := self._wrong(marker, pq.read_schema):
                lost.append(f"{self.text}: {why}")
            else:
                complete.append(marker)
        return complete

    def whole(self, markers: Sequence[Marker], lost: list[str]) -> list[Marker]:
        """Those of them whose tables can be read to their ends, likewise."""
        wrong = [(marker, self._wrong(marker, _through)) for marker in markers]
        lost += [f"{self.text}: {why}" for _, why in wrong if why]
        return [marker for marker, why in wrong if not why]

    def _wrong(self, marker: Marker, read: Callable[..., pa.Schema]) -> str:
        """What is wrong with the tables of a batch; "" where nothing is."""
        tables = {file.partition("/")[0] for file in marker.files}
        if any(each.run is not None for each in marker.objects) and not tables >= _ALWAYS:
            return f"the marker of batch {marker.batch} names no files of its traces"
        for file in marker.files:
            try:
                schema = read(self._place.below(file), filesystem=self._system)
            except (OSError, ValueError, pa.ArrowException) as error:
                return f"{file} is missing or damaged ({first_line(error)})"
            wanted = SCHEMAS[file.partition("/")[0]]
            odd = [each.name for each in schema if each.name in wanted.names and not _fits(each, wanted)]
            if odd:
                return f"{file} is damaged: its {odd[0]} is {schema.field(odd[0]).type}"
        return ""

    def paths(self) -> list[str]:
        """The files of this machine that a report reads; none where the tables are in an object store."""
        if not self._place.is_local:
            return []
        files = ([*marker.files, f"{MARKERS}/{marker.batch}.json"] for marker in self.markers([]))
        return [self._place.below(file) for each in files for file in each]

    def dataset(self, name: str, markers: Sequence[Marker]) -> ds.Dataset:
        """One table, of these batches, with a column for each label that any of them has."""
        files = [self._place.below(file) for marker in markers for file in marker.files if file.startswith(f"{name}/")]
        schema = SCHEMAS[name]
        for label in _labels(markers) if name == "runs" else ():
            schema = schema.append(pa.field(LABEL + label, _TEXT))
        schema = schema.append(pa.field("batch", _TEXT))
        if not files:
            return ds.dataset(schema.empty_table())
        return ds.dataset(files, schema=schema, format="parquet", filesystem=self._system)

    # --- keeping order ------------------------------------------------------------------------------------------------

    def tidy(self) -> int:
        """Rewrite batches that hold what no longer counts, and small ones into larger. Returns how many there were."""
        every = live(self.markers())
        lost = superseded(every)
        stale = {batch for batch, _ in lost}
        small = [marker for marker in every if marker.bytes < _SMALL_BYTES]
        chosen = {marker.batch for marker in small} if len(small) > _MOST_SMALL else set()
        rewritten = [marker for marker in every if marker.batch in chosen | stale]
        last = latest(every)
        for group in _groups(rewritten):
            if len(group) > 1 or group[0].batch in stale:
                self._rewrite(group, lost, last)
        return len(rewritten)

    def _rewrite(self, group: list[Marker], lost: set[tuple[str, str]], last: Mapping[str, Outcome]) -> None:
        objects = []
        for marker in group:
            for each in marker.objects:
                if each.run is not None and (marker.batch, each.run) not in lost:
                    objects.append(each)  # its rows are here, whatever its name holds by now
                elif each is last[each.uri]:
                    objects.append(_copy_of(each) if each.run is not None else each)
        self.commit(new_name(), self._kept(group, lost), objects, [marker.batch for marker in group])

    def _kept(self, group: list[Marker], lost: set[tuple[str, str]]) -> Parts:
        """The rows of these batches that count, those of one table and day at a time."""
        files: defaultdict[tuple[str, str], list[tuple[Marker, str]]] = defaultdict(list)
        for marker in group:
            for file in marker.files:
                if (match := _FILE.fullmatch(file)) is not None:
                    files[match[1], match[2]].append((marker, file))
        for key, pieces in sorted(files.items()):
            kept = []
            for marker, file in pieces:
                table = pq.read_table(self._place.below(file), filesystem=self._system).drop_columns(["batch"])
                gone = pa.array([run for batch, run in lost if batch == marker.batch], _TEXT)
                kept.append(table.filter(pc.invert(pc.is_in(table["run"], value_set=gone))))
            yield key, [pa.concat_tables(kept, promote_options="default").sort_by(_ORDER)]

    def sweep(self) -> None:
        """Remove what a writer left that died, a day before anything that counts, and the batches replaced by then.

        Nothing but files of batches that a writer has begun here: others may have theirs in the folder.
        """
        markers = self.markers()
        # only times of the store itself are compared, and of clocks that go wrong the earlier one
        now = min(time.time(), max((marker.committed for marker in markers), default=0.0))
        replaced_at = {batch: marker.committed for marker in markers for batch in marker.replaces}
        named = {file for marker in markers for file in marker.files}
        begun = self._begun()
        for folder in (*SCHEMAS, MARKERS):
            selected = fs.FileSelector(self._place.below(folder), recursive=True, allow_not_found=True)
            for info in self._system.get_file_info(selected):
                file = info.path.removeprefix(self._place.below(""))
                ours = _batch_of(file) in begun and not self._is_linked(file)
                if ours and file not in named and now - (info.mtime_ns or 0) / 1e9 >= _GRACE_S:
                    self._delete(file)
        old = [each for each in markers if now - replaced_at.get(each.batch, math.inf) >= _GRACE_S]
        for marker in sorted(old, key=lambda each: replaced_at[each.batch]):  # none outlives who replaced it
            for file in [*marker.files, f"{MARKERS}/{marker.batch}.json"]:  # its marker last: else they had none
                self._delete(file)

    def _begun(self) -> set[str]:
        """The batches that any writer has begun, whether or not it came to an end."""
        selected = fs.FileSelector(self._place.below(MARKERS), recursive=False, allow_not_found=True)
        names = (info.base_name for info in self._system.get_file_info(selected))
        return {name.partition(".")[0] for name in names if name.endswith((_BEGUN, ".json")) or ".json." in name}

    def _is_linked(self, file: str) -> bool:
        """Whether a link leads there: to somebody else's folder, maybe."""
        if not self._place.is_local:
            return False
        top = os.path.realpath(self._place.below(""))
        return os.path.realpath(self._place.below(file)) != os.path.join(top, file)

    def _delete(self, file: str) -> None:
        with suppress(OSError):  # another one was first
            self._system.delete_file(self._place.below(file))


def new_name() -> str:
    """A name for a batch that no other has."""
    return secrets.token_hex(_DIGITS // 2)


def live(markers: Iterable[Marker]) -> list[Marker]:
    """Those that count."""
    every = list(markers)
    replaced = {batch for marker in every for batch in marker.replaces}
    return [marker for marker in every if marker.batch not in replaced]


def superseded(markers: Iterable[Marker]) -> set[tuple[str, str]]:
    """Batch and run of the rows that do not count: a longer piece of the trace is there, or the very same in a batch
    before it."""
    best: dict[str, tuple[int, str, str]] = {}
    lost = set()
    for marker in sorted(markers, key=lambda marker: marker.batch):
        for each in marker.objects:
            if each.head is None or each.run is None:
                continue
            own = each.length, marker.batch, each.run
            other = best.get(each.head)
            if other is None or own[0] > other[0]:
                best[each.head], own = own, other or own
            if other is not None:
                lost.add((own[1], own[2]))
    return lost


def known(markers: Iterable[Marker]) -> Callable[[Object], bool]:
    """Whether an object, as it is listed now, was read before."""
    seen = {(o.uri, o.size, o.modified) for m in markers for o in m.objects if o.state != UNREADABLE}
    return lambda each: (each.uri, each.size, each.modified) in seen


def latest(markers: Iterable[Marker]) -> dict[str, Outcome]:
    """By address, what became of what it holds by now."""
    by_uri: dict[str, Outcome] = {}
    for marker in markers:
        for each in marker.objects:
            other = by_uri.get(each.uri)
            if other is None or _how_late(each) > _how_late(other):
                by_uri[each.uri] = each
    return by_uri


def _how_late(outcome: Outcome) -> tuple[int, bool]:
    """What the store did not give is asked for again."""
    return outcome.modified, outcome.state != UNREADABLE


def _copy_of(outcome: Outcome) -> Outcome:
    return Outcome(
        outcome.uri, outcome.size, outcome.modified, COPY, "the trace is there, whole or longer, by another name",
        outcome.head, None, outcome.length,
    )  # fmt: skip


def _labels(markers: Iterable[Marker]) -> list[str]:
    """Those that the environment gives, always, and others that runs have."""
    others = {label for marker in markers for label in marker.labels} - VARIABLES.keys()
    return [*VARIABLES, *sorted(others)[:_MOST_LABELS]]


def _groups(markers: Iterable[Marker]) -> list[list[Marker]]:
    """Batches that are rewritten as one each, of so many bytes that memory has room for them."""
    groups: list[list[Marker]] = []
    room = 0
    for marker in sorted(markers, key=lambda marker: (marker.committed, marker.batch)):
        room -= marker.bytes
        if room < 0 or not groups:
            groups.append([])
            room = _GROUP_BYTES - marker.bytes
        groups[-1].append(marker)
    return groups


def _with_few_labels(runs: pa.Table) -> tuple[pa.Table, list[str]]:
    """The runs with a column for each of at most so many labels, and these: those of the environment, then those that
    most runs have."""
    labels = [name.removeprefix(LABEL) for name in runs.column_names if name.startswith(LABEL)]
    by_use = sorted(labels, key=lambda label: (label not in VARIABLES, runs[LABEL + label].null_count, label))
    return runs.drop_columns([LABEL + label for label in by_use[_MOST_LABELS:]]), by_use[:_MOST_LABELS]


def _batch_of(file: str) -> str | None:
    """The batch that a file below the tables' folder is of, if it is what a writer may leave; else None."""
    match = _FILE.fullmatch(file)
    if match is not None:
        return match[3] if len(match[3]) == _DIGITS else None
    left = _UNFINISHED.fullmatch(file)
    return left[1] if left is not None else None


def _fits(column: pa.Field, wanted: pa.Schema) -> bool:
    """Whether a column is of the type that it has to be, or of none, as one is in which nothing stands."""
    return bool(pa.types.is_null(column.type) or column.type.equals(wanted.field(column.name).type))


def _through(path: str, filesystem: Any) -> pa.Schema:
    """Read a table to its end, for its schema."""
    with pq.ParquetFile(path, filesystem=filesystem) as file:
        for _ in file.iter_batches():
            pass
        return file.schema_arrow


def _marker(content: bytes, path: str, batch: str) -> Marker:
    """A marker that anybody may have written: it names no files but those of its batch. Raises FleetError for what is
    none."""
    try:
        fields = json.loads(content)
        if fields["schema"] != SCHEMA:
            raise FleetError(f"{path} has schema {str(fields['schema'])[:40]!r}; this coldstep reads {SCHEMA}")
        if fields["batch"] != batch or not _NAME.fullmatch(batch):
            raise FleetError(f"{path} is the marker of another batch, {str(fields['batch'])[:40]!r}")
        return Marker(
            batch,
            [file for file in map(str, fields["files"]) if (match := _FILE.fullmatch(file)) and match[3] == batch],
            [_outcome(row) for row in fields["objects"]],
            [label for label in map(str, fields["labels"]) if is_name(label)],
            [str(batch) for batch in fields["replaces"]],
            int(fields["bytes"]),
            float(fields["committed"]),
        )
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        if isinstance(error, FleetError):
            raise
        raise FleetError(f"{path} is damaged: {type(error).__name__}: {error}"[:500]) from None


def _outcome(row: Any) -> Outcome:
    text = {name: row.get(name) for name in ("why", "head", "run")}
    return Outcome(
        str(row["uri"]), int(row["size"]), int(row["modified"]), str(row["state"]),
        **{name: str(value) if value is not None else None for name, value in text.items()}, length=int(row["length"]),
    )  # fmt: skip
