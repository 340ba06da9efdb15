"""The tables of a fleet: a folder for each batch of traces, whole once `_SUCCESS` lies in it, as Spark leaves one.

Any number of machines write below one address, and none asks another. A batch is named by what it was made of, and a
file by the traces whose rows it has: whoever writes the same again writes the same. A file never changes; batches are
rewritten into a new one, which replaces them and has all that they have. Where two batches have one trace, the longer
piece counts, and one of those that are alike: the rows name their batch.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs

from coldstep._util.expressions import expression
from coldstep._util.gathered import gathered
from coldstep._util.labels import VARIABLES, is_name
from coldstep._util.slotted import field, slotted
from coldstep.errors import first_line
from coldstep_viewers.export.parquet import dataset, file_of, whole, write
from coldstep_viewers.export.tables import LABEL, SCHEMAS
from coldstep_viewers.fleet.places import FleetError, Object, place

SCHEMA = "coldstep-tables/2"
MARKER = "_SUCCESS"
_OLDER, _OF_OLDER = "coldstep-tables/1", "_batches"
READ, CUT, BROKEN, TOO_COSTLY, UNREADABLE, COPY = "read", "cut", "broken", "too_costly", "unreadable", "copy"
"""What became of an object: its rows are there; they are, up to where it ends without an end; it is no trace, or a
damaged one; it took too much; the store did not give it, and it is asked for again; the trace is there already."""

_SMALL_BYTES, _MOST_SMALL, _GROUP_BYTES = 32 << 20, 16, 128 << 20
_GRACE_S = 86_400  # for whoever reads what was replaced
_MOST_LABELS = 200  # columns in all
_TEXT = pa.string()
_ORDER = [("started", "ascending"), ("run", "ascending")]
# coldstep: "0123456789abcdef0123"
_NAME = expression(r"[0-9a-f]{20}")
# coldstep: "runs/date=2026-11-20/0123456789abcdef0123.parquet"
_FILE = expression(r"(\w+)/date=(\d{4}-\d\d-\d\d)/[0-9a-f]{20}\.parquet")
# coldstep: "_SUCCESS.0123abcd"
# coldstep: "runs/date=2026-11-20/0123456789abcdef0123.parquet.0123abcd"
_OURS = expression(rf"(?:{MARKER}|{_FILE.pattern})(?:\.[0-9a-f]{{8}})?")
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
    """Its name, and that of its folder."""
    files: list[str] = field(default_factory=list)
    """Below that folder."""
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

    def commit(self, parts: Parts, objects: list[Outcome], replaces: Sequence[str] = ()) -> Marker:
        """Write the files of a batch, then its marker. Raises OSError."""
        made_of = sorted(replaces) or sorted(f"{o.uri} {o.size} {o.modified} {o.state} {o.run}" for o in objects)
        batch = _hash(made_of)
        marker = Marker(batch, objects=objects, replaces=list(replaces), committed=time.time())
        for (name, day), tables in parts:
            table = pa.concat_tables(tables, promote_options="default")
            if not table.num_rows:
                continue
            if name == "runs":
                table, labels = _with_few_labels(table)
                marker.labels = sorted({*marker.labels, *labels})
            file = file_of(name, day, _hash(sorted(map(str, pc.unique(table["run"]).to_pylist()))))
            named = table.append_column("batch", pa.repeat(pa.scalar(batch, _TEXT), table.num_rows))
            write(named, path := self._below(batch, file), self._system)
            marker.files.append(file)
            marker.bytes += self._system.get_file_info(path).size or 0
        content = json.dumps({"schema": SCHEMA, **asdict(marker)}).encode()
        with whole(self._below(batch, MARKER), self._system) as out:
            out.write(content)
        return marker

    def _below(self, batch: str, file: str) -> str:
        return self._place.below(f"{batch}/{file}")

    # --- reading ------------------------------------------------------------------------------------------------------

    def markers(self, lost: list[str] | None = None) -> list[Marker]:
        """All that are there, those of batches that were replaced, too. Raises FleetError; one that cannot be read is
        left out, and the reason goes to `lost`."""
        try:
            names = self._folders()
            infos = self._system.get_file_info([self._below(name, MARKER) for name in names])
        except NotADirectoryError:
            raise FleetError(f"{self.text} is no folder") from None
        except (OSError, pa.ArrowException) as error:
            raise FleetError(f"cannot read {self.text}: {error}") from None
        readable = []
        for batch, info in zip(names, infos, strict=True):
            if info.type != fs.FileType.File:
                continue
            name = f"{self.text}/{batch}/{MARKER}"
            # an object store keeps an empty one of a writer that was interrupted just then
            if not info.size:
                if lost is not None:
                    lost.append(f"{name} is empty: its writer died; coldstep fleet load reads its traces again")
                continue
            try:
                with suppress(FileNotFoundError), self._system.open_input_stream(info.path) as file:
                    marker = _marker(file.readall(), name, batch)
                    marker.committed = (info.mtime_ns or 0) / 1e9
                    readable.append(marker)
            except (FleetError, OSError) as error:
                if lost is None:
                    raise
                lost.append(str(error) if isinstance(error, FleetError) else f"cannot read {name}: {error.strerror}")
        return readable

    def _folders(self) -> list[str]:
        """Those of batches, whether or not these are whole. Raises FleetError for tables of an earlier coldstep."""
        selected = fs.FileSelector(self._place.path, recursive=False, allow_not_found=True)
        names = sorted(info.base_name for info in self._system.get_file_info(selected))
        if _OF_OLDER in names:
            raise FleetError(f"{self.text} holds tables of {_OLDER}: give coldstep fleet load another folder")
        return [name for name in names if _NAME.fullmatch(name)]

    def readable(self, lost: list[str]) -> list[Marker]:
        """The batches that count, and whose tables are there; for each other one, `lost` gets the reason. Raises
        FleetError."""
        every = self.markers(lost)
        while wrong := {each.batch: why for each in live(every) if (why := self._wrong(each, pq.read_schema))}:
            lost += [f"{self.text}: {why}" for why in wrong.values()]
            every = [each for each in every if each.batch not in wrong]  # what it replaced counts again
        return live(every)

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
                schema = read(self._below(marker.batch, file), filesystem=self._system)
            except (OSError, ValueError, pa.ArrowException) as error:
                return f"{marker.batch}/{file} is missing or damaged ({first_line(error)})"
            wanted = SCHEMAS[file.partition("/")[0]]
            odd = [each.name for each in schema if each.name in wanted.names and not _fits(each, wanted)]
            if odd:
                return f"{marker.batch}/{file} is damaged: its {odd[0]} is {schema.field(odd[0]).type}"
        return ""

    def paths(self) -> list[str]:
        """The files of this machine that a report reads; none where the tables are in an object store."""
        if not self._place.is_local:
            return []
        return [self._below(each.batch, file) for each in self.markers([]) for file in (*each.files, MARKER)]

    def dataset(self, name: str, markers: Sequence[Marker]) -> ds.Dataset:
        """One table, of these batches, with a column for each label that any of them has."""
        labels = [LABEL + label for label in _labels(markers)] if name == "runs" else []
        files = [
            self._below(each.batch, file) for each in markers for file in each.files if file.startswith(f"{name}/")
        ]
        return dataset(name, files, [*labels, "batch"], self._system)

    # --- keeping order ------------------------------------------------------------------------------------------------

    def tidy(self) -> int:
        """Rewrite batches that have a trace in common, and many small ones, into new ones. Returns how many there were.

        Others may do so meanwhile: a new batch has what those have that it replaces, whatever else is there.
        """
        every = live(self.markers())
        heads = Counter(each.head for marker in every for each in marker.objects if each.run is not None)
        shared = {m.batch for m in every if any(o.run is not None and heads[o.head] > 1 for o in m.objects)}
        small = {marker.batch for marker in every if marker.bytes < _SMALL_BYTES}
        chosen = shared | (small if len(small) > _MOST_SMALL else set())
        order = sorted(every, key=lambda each: (each.batch not in shared, each.committed, each.batch))
        groups = _groups(marker for marker in order if marker.batch in chosen)
        rewritten = [group for group in groups if superseded(group) or sum(each.batch in small for each in group) > 1]
        for group in rewritten:
            self._rewrite(group)
        return sum(map(len, rewritten))

    def _rewrite(self, group: list[Marker]) -> None:
        lost, last, objects = superseded(group), latest(group), []
        for marker in group:
            for each in marker.objects:
                if each.run is not None and (marker.batch, each.run) not in lost:
                    objects.append(each)  # its rows are here, whatever its name holds by now
                elif each is last[each.uri]:
                    objects.append(_copy_of(each) if each.run is not None else each)
        self.commit(self._kept(group, lost), objects, [marker.batch for marker in group])

    def _kept(self, group: list[Marker], lost: set[tuple[str, str]]) -> Parts:
        """The rows of these batches that count, those of one table and day at a time."""
        files = gathered(
            ((match[1], match[2]), (marker, file))
            for marker in group
            for file in marker.files
            if (match := _FILE.fullmatch(file)) is not None
        )
        for key, pieces in sorted(files.items()):
            kept = []
            for marker, file in pieces:
                table = pq.read_table(self._below(marker.batch, file), filesystem=self._system, partitioning=None)
                gone = pa.array([run for batch, run in lost if batch == marker.batch], _TEXT)
                kept.append(table.drop_columns(["batch"]).filter(pc.invert(pc.is_in(table["run"], value_set=gone))))
            yield key, [pa.concat_tables(kept, promote_options="default").sort_by(_ORDER)]

    def sweep(self) -> None:
        """Remove the folders of batches that were replaced a day ago, and of those whose writer died by then.

        Nothing but what a writer of ours leaves: others may have their files in the folder.
        """
        markers = self.markers()
        # only times of the store itself are compared, and of clocks that go wrong the earlier one
        now = min(time.time(), max((marker.committed for marker in markers), default=0.0))
        counting = {marker.batch for marker in live(markers)}
        replaced_at = {batch: marker.committed for marker in markers for batch in marker.replaces}
        remove = shutil.rmtree if self._place.is_local else self._system.delete_dir
        # none outlives who replaced it
        for batch in sorted({*self._folders()} - counting, key=lambda each: replaced_at.get(each, math.inf)):
            infos = self._system.get_file_info(fs.FileSelector(folder := self._place.below(batch), recursive=True))
            files = [info for info in infos if info.type != fs.FileType.Directory]
            last = max([replaced_at.get(batch, 0.0), *((info.mtime_ns or 0) / 1e9 for info in files)])
            ours = bool(files) and all(_OURS.fullmatch(info.path.removeprefix(f"{folder}/")) for info in files)
            if ours and now - last >= _GRACE_S:
                with suppress(OSError):  # another one was first; or it is a link, to somebody else's folder maybe
                    remove(folder)


def _hash(texts: Sequence[str]) -> str:
    return hashlib.blake2b(json.dumps(texts).encode(), digest_size=10).hexdigest()


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
    for marker in markers:
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
        if fields["batch"] != batch:
            raise FleetError(f"{path} is the marker of another batch, {str(fields['batch'])[:40]!r}")
        files = [file for file in map(str, fields["files"]) if (match := _FILE.fullmatch(file)) and match[1] in SCHEMAS]
        objects, labels = list(map(_outcome, fields["objects"])), list(filter(is_name, map(str, fields["labels"])))
        size, committed = int(fields["bytes"]), float(fields["committed"])
        return Marker(batch, files, objects, labels, list(map(str, fields["replaces"])), size, committed)
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
