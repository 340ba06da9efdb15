"""Reads a coldstep trace back, packet by packet, in bounded memory; a file cut anywhere reads up to the cut."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import BinaryIO, TypeVar

from coldstep._util.slotted import field, slotted
from coldstep.errors import TraceError
from coldstep.events import Args
from coldstep.pftrace import proto
from coldstep.pftrace.layout import STEP, parse_step
from coldstep.pftrace.proto import (
    DebugAnnotation,
    Interned,
    InternedData,
    TracePacket,
    TrackDescriptor,
    TrackEvent,
    as_bytes,
    as_int,
)
from coldstep.pftrace.records import EventRow as EventRow
from coldstep.pftrace.records import TrackRow as TrackRow
from coldstep.pftrace.repeats import Repeats, Template, template

Read = TypeVar("Read")

# A trace may come from anybody. What it may hold is bounded by the honest: ours are 7 to 20 times larger unpacked, and
# have two bytes and more on disk for each packet and each of its arguments.
_MAX_BLOCK_BYTES = 1 << 26  # unpacked
_MAX_INFLATION = 32  # times the file's length, and one block
_MAX_PACKET_BYTES = 1 << 24  # of a program's text there are 8 MiB in one
_MAX_TEXT_BYTES = 1 << 20
_MAX_DEPTH = 100
_MAX_FIELDS = 1 << 20  # of one event: a model may have fifty thousand parameters
_MAX_FLOWS = 16
_MAX_STEP_PACKETS = 200  # of a step that others may be just like
_FREE_PARTS = 300_000  # packets and arguments that the shortest file may have

_MAX_SHAPES = 1 << 14
_MAX_SHAPE_BYTES = 1 << 12
_PACKET = proto.varint(proto.Trace.packet << 3 | proto.BYTES)
_TIMESTAMP = proto.varint(TracePacket.timestamp << 3 | proto.VARINT)
_TITLE = proto.varint(TrackEvent.name << 3 | proto.BYTES)
_HEAD = 1 + proto.TIMESTAMP_SIZE
_time = lru_cache(maxsize=16)(proto.read_timestamp)  # what ends, and what begins then, is of one time


def rows(path: str | Path, notes: list[str] | None = None) -> Iterator[TrackRow | EventRow]:
    """The tracks and events of the file, in the order they were written.

    Raises TraceError for a file that is missing, empty, or no Perfetto trace. A cut or damaged tail ends the
    iteration: nothing before it is lost. So does anything larger than coldstep ever writes, with a line in `notes`.
    """
    return (row for _, row in decoded(path, notes) if row is not None)


def decoded(path: str | Path, notes: list[str] | None = None) -> Iterator[tuple[bytes, TrackRow | EventRow | None]]:
    """Each packet of the file with its track or event, as `rows` gives them."""
    return _read(path, notes, _decoded)


def folded(path: str | Path, notes: list[str] | None = None) -> Iterator[TrackRow | EventRow | Repeats]:
    """As `rows`, but for steps whose packets are those of the step before: many of them come as one row."""
    return _read(path, notes, _folded)


def _read(
    path: str | Path, notes: list[str] | None, read: Callable[[BinaryIO, str | Path], Iterator[Read]]
) -> Iterator[Read]:
    try:
        with open(path, "rb") as file:
            if not file.peek(1):
                raise TraceError(f"{path} is empty: nothing was ever written to it, trace again")
            yield from read(file, path)
    except PermissionError as error:
        hint = "coldstep writes traces for their owner alone (mode 0600); chmod a+r lets others read one"
        raise TraceError(f"cannot read {path}: {error.strerror}: {hint}") from None
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror}") from None
    except _TooMuch as error:
        if notes is not None:
            notes.append(f"The file was read up to {error}, which coldstep never writes: what follows is not known.")


class _TooMuch(Exception):
    """What the file goes on with, where that is meant to hurt; no ValueError, since those end a cut file silently."""


def _decoded(file: BinaryIO, path: str | Path) -> Iterator[tuple[bytes, TrackRow | EventRow | None]]:
    decoder, bound = Decoder(), _Bound()
    for content, read in _blocks(file, path):
        at = 0
        try:
            while at < len(content):
                start, at = _packet(content, at)
                packet = _small(content[start:at])
                row = decoder.decode(packet)
                bound.take(row, decoder, read)
                yield packet, row
        except ValueError:
            return


def _folded(file: BinaryIO, path: str | Path) -> Iterator[TrackRow | EventRow | Repeats]:
    decoder, bound, steps = Decoder(), _Bound(), _StepWatch()
    for content, read in _blocks(file, path):
        at = 0
        steps.block(content)
        try:
            while at < len(content):
                start, at = _packet(content, at)
                row = decoder.decode(_small(content[start:at]))
                bound.take(row, decoder, read)
                if row is None:
                    continue
                yield row
                if isinstance(row, EventRow) and (n := steps.ended(row, start, at)) is not None:
                    repeats, size = steps.more(row.track, at, n + 1)
                    if repeats is not None:
                        bound.add(repeats.count, decoder, read)
                        yield repeats
                        at += size
        except ValueError:
            return


class _Bound:
    """How much is held of a file, beside how long it is."""

    def __init__(self) -> None:
        self._held = 0

    def take(self, row: TrackRow | EventRow | None, decoder: Decoder, read: int) -> None:
        """A packet was decoded, `read` bytes into the file."""
        self.add(1 + len(row.args) if isinstance(row, EventRow) else 1, decoder, read)

    def add(self, rows: int, decoder: Decoder, read: int) -> None:
        """As much more as so many rows is held."""
        self._held += rows
        if self._held + decoder.learnt > _FREE_PARTS + read:
            raise _TooMuch("more packets than a file of its length has")


class _StepWatch:
    """Watches the packets of a block for the ends of steps, behind which the next may look just alike."""

    def __init__(self) -> None:
        self._content = b""
        self._start = 0  # where the step's packets begin
        self._packets: list[tuple[int, EventRow]] | None = None  # where each is; None where they are no template
        self._begun: EventRow | None = None
        self._templates: dict[int, Template] = {}  # by the steps' track

    def block(self, content: bytes) -> None:
        """Another block begins."""
        self._content, self._packets, self._begun = content, None, None

    def ended(self, row: EventRow, start: int, end: int) -> int | None:
        """Take in a packet; if it ends a step, the step's ordinal."""
        if self._packets is not None:
            self._packets.append((start, row))
            few = len(self._packets) <= _MAX_STEP_PACKETS
            if not few or row.kind not in (proto.SLICE_BEGIN, proto.SLICE_END) or row.flows:
                self._packets = None
        begun = self._begun
        if row.kind == proto.SLICE_BEGIN and row.category == STEP:
            self._begun = row
            return None
        if begun is None or row.kind != proto.SLICE_END or row.track != begun.track:
            return None
        self._begun = None
        try:
            _, n = parse_step(begun.name)
        except ValueError:
            return None  # a step of somebody else's
        known = self._templates.get(row.track)
        if self._packets is not None and (known is None or not known.fits(self._content, self._start, end)):
            record, events = self._content[self._start : end], [each for _, each in self._packets]
            made = template(record, [at - self._start for at, _ in self._packets], events, begun.name)
            if made is not None:
                self._templates[row.track] = made
        self._start, self._packets = end, []
        return n

    def more(self, track: int, at: int, first: int) -> tuple[Repeats | None, int]:
        """The steps that stand there and are just like the one before, with ordinals from `first` on, and how many
        bytes they are."""
        known = self._templates.get(track)
        repeats, size = known.more(self._content, at, first) if known is not None else (None, 0)
        self._start = at + size
        return repeats, size


def _packet(content: bytes, at: int) -> tuple[int, int]:
    """Where the packet that stands there begins, behind its length, and where it ends."""
    if content[at : at + 1] != _PACKET:
        raise ValueError("no packet")
    size = shift = 0
    at += 1
    while at < len(content):
        byte = content[at]
        at += 1
        size |= (byte & 127) << shift
        if byte < 128:
            if at + size > len(content):
                break
            return at, at + size
        shift += 7
    raise ValueError("a packet is cut")


def _blocks(file: BinaryIO, path: str | Path) -> Iterator[tuple[bytes, int]]:
    """The packets of the file, many at a time, unpacked, and how much of it has been read."""
    first, read, room = True, 0, _MAX_BLOCK_BYTES
    while True:
        try:
            size = _size(file)
        except ValueError:
            if first:
                raise TraceError(f"{path} is not a Perfetto trace: give a .pftrace that coldstep wrote") from None
            return
        if size is None or len(packet := file.read(size)) < size:
            return
        first = False
        read += size
        try:
            block = next((v for k, v in _fields(packet) if k == TracePacket.compressed_packets), None)
            if block is None:
                yield proto.data(proto.Trace.packet, _small(packet)), read
                continue
            del packet  # of the largest there would be a copy more
            content = _inflated(as_bytes(block), min(_MAX_BLOCK_BYTES, room + _MAX_INFLATION * read))
        except (ValueError, zlib.error):
            return
        del block
        room -= len(content)
        yield content, read


def _inflated(block: bytes, most: int) -> bytes:
    """The block's content, of at most `most` bytes: a megabyte of zlib can hold a gigabyte."""
    inflate = zlib.decompressobj()
    try:
        content = inflate.decompress(block, max(1, most))
    except zlib.error as error:
        if "Error -4 " in str(error):  # Z_MEM_ERROR: the block may be whole
            raise MemoryError from error
        raise
    if inflate.unconsumed_tail:
        raise _TooMuch(f"a block of more than {most >> 20} MiB")
    if not inflate.eof:
        raise ValueError("a block is cut")
    return content


def _small(packet: bytes) -> bytes:
    if len(packet) > _MAX_PACKET_BYTES:
        raise _TooMuch(f"a packet of more than {_MAX_PACKET_BYTES >> 20} MiB")
    return packet


def _size(file: BinaryIO) -> int | None:
    """The size of the packet that begins here; None where the file ends within its header."""
    key = file.read(1)
    if key not in (b"", _PACKET):
        raise ValueError("no packet")
    size = shift = 0
    while byte := file.read(1):
        size |= (byte[0] & 127) << shift
        if byte[0] < 128:
            if size > _MAX_BLOCK_BYTES:
                raise ValueError("no packet is that large")
            return size
        shift += 7
        if shift > 63:
            raise ValueError("no length")
    return None


@slotted
class _Sequence:
    """The interned texts of one packet sequence."""

    categories: dict[int, str] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    keys: dict[int, str] = field(default_factory=dict)
    seen: dict[bytes, tuple[str, object]] = field(default_factory=dict)  # encoded plain annotations, decoded once

    def learn(self, interned: bytes) -> int:
        """Take in texts; how many."""
        learnt = 0
        tables = {
            InternedData.event_categories: self.categories,
            InternedData.event_names: self.names,
            InternedData.debug_annotation_names: self.keys,
        }
        for number, entry in _fields(interned):
            if (table := tables.get(number)) is not None:
                values = dict(_fields(as_bytes(entry)))
                table[as_int(values.get(Interned.iid, 0))] = _text(values.get(Interned.name, b""))
                learnt += 1
        return learnt


class Decoder:
    """Packets to rows. What differs only in its time, or also in the title that it ends with, is decoded once."""

    def __init__(self) -> None:
        self._sequences: dict[int, _Sequence] = defaultdict(_Sequence)
        self._shapes: dict[bytes, tuple[int, int, str, str]] = {}
        self._titled: dict[bytes, tuple[int, int, str, Args]] = {}
        self._parts = 0
        self.learnt = 0
        """How much is held beside the rows that were returned, in rows: texts, sequences, the parts of arguments."""

    def decode(self, packet: bytes) -> TrackRow | EventRow | None:
        """The packet's track or event; None for any other packet. Raises ValueError where it is damaged."""
        head, tail = packet[:_HEAD], packet[_HEAD:]
        stamped = head[:1] == _TIMESTAMP
        if stamped and (shape := self._shapes.get(tail)) is not None:
            kind, track, name, category = shape
            return EventRow(kind, _time(head), track, name, category, {})
        at = tail.rfind(_TITLE) + len(_TITLE) + 1
        front, title = tail[:at], tail[at:]  # the front ends with the title's length
        if stamped and (like := self._titled.get(front)) is not None and front[-1] == len(title):
            kind, track, category, args = like
            return EventRow(kind, _time(head), track, _text(title), category, args.copy())
        values = dict(_fields(packet))
        id_ = as_int(values.get(TracePacket.trusted_packet_sequence_id, 0))
        self.learnt += 4 * (id_ not in self._sequences)  # its tables are larger than an event
        sequence = self._sequences[id_]
        if interned := values.get(TracePacket.interned_data):
            self.learnt += sequence.learn(as_bytes(interned))
        if descriptor := values.get(TracePacket.track_descriptor):
            return _track(as_bytes(descriptor))
        if event := values.get(TracePacket.track_event):
            row = self._event(as_int(values.get(TracePacket.timestamp, 0)), as_bytes(event), sequence)
            known = len(self._shapes) + len(self._titled)
            if row.flows or _time(head) != row.ns or known >= _MAX_SHAPES or len(packet) > _MAX_SHAPE_BYTES:
                return row
            if title and row.name == _text(title):
                self._titled[front] = row.kind, row.track, row.category, row.args.copy()
            elif not row.args:
                self._shapes[tail] = row.kind, row.track, row.name, row.category
            return row
        return None

    def _event(self, ns: int, event: bytes, sequence: _Sequence) -> EventRow:
        if ns >> 63:
            raise ValueError("a time after the end of time")
        row = EventRow(0, ns, 0, "", "", {})
        flows: list[int] = []
        self._parts = 0
        for number, value in _fields(event):
            if number == TrackEvent.type:
                row.kind = as_int(value)
            elif number == TrackEvent.track_uuid:
                row.track = as_int(value)
            elif number == TrackEvent.name_iid:
                row.name = sequence.names.get(as_int(value), "")
            elif number == TrackEvent.name:
                row.name = _text(value)
            elif number == TrackEvent.category_iids:
                row.category = sequence.categories.get(as_int(value), "")
            elif number == TrackEvent.flow_ids and len(flows) < _MAX_FLOWS:
                flows.append(as_int(value))
            elif number == TrackEvent.double_counter_value:
                row.args["value"] = proto.as_double(as_int(value))
            elif number == TrackEvent.debug_annotations:
                encoded = as_bytes(value)
                known = sequence.seen.get(encoded)
                if known is None:
                    known = self._annotation(encoded, sequence, 0)
                    few = len(sequence.seen) < _MAX_SHAPES and len(encoded) <= _MAX_SHAPE_BYTES
                    if few and isinstance(known[1], str | int):
                        sequence.seen[encoded] = known
                row.args[known[0]] = known[1]
        row.flows = tuple(flows)
        self.learnt += self._parts // 4  # they are smaller than an event
        return row

    def _annotation(self, annotation: bytes, sequence: _Sequence, depth: int) -> tuple[str, object]:
        self._parts += 1
        if depth > _MAX_DEPTH or self._parts > _MAX_FIELDS:
            raise _TooMuch(f"an argument of more than {_MAX_FIELDS:,} parts, or {_MAX_DEPTH} inside each other")
        key, value = "", None  # type: str, object
        entries: dict[str, object] = {}
        items: list[object] = []
        for number, item in _fields(annotation):
            if number == DebugAnnotation.name_iid:
                key = sequence.keys.get(as_int(item), "")
            elif number == DebugAnnotation.name:
                key = _text(item)
            elif number == DebugAnnotation.string_value:
                value = _text(item)
            elif number == DebugAnnotation.int_value:
                value = proto.as_signed(as_int(item))
            elif number == DebugAnnotation.bool_value:
                value = bool(item)
            elif number == DebugAnnotation.double_value:
                value = proto.as_double(as_int(item))
            elif number == DebugAnnotation.dict_entries:
                name, entry = self._annotation(as_bytes(item), sequence, depth + 1)
                entries[name] = entry
            elif number == DebugAnnotation.array_values:
                items.append(self._annotation(as_bytes(item), sequence, depth + 1)[1])
        return key, entries or items or value


def _track(descriptor: bytes) -> TrackRow:
    track = dict(_fields(descriptor))
    parent = track.get(TrackDescriptor.parent_uuid)
    uuid, above = as_int(track.get(TrackDescriptor.uuid, 0)), None if parent is None else as_int(parent)
    name, about = (_text(track.get(key, b"")) for key in (TrackDescriptor.name, TrackDescriptor.description))
    return TrackRow(uuid, name, above, about)


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of one event or of a part of it, of which there are not endlessly many."""
    return islice(proto.fields(message), _MAX_FIELDS)


def _text(value: int | bytes) -> str:
    text = as_bytes(value)
    if len(text) > _MAX_TEXT_BYTES:
        return text[:_MAX_TEXT_BYTES].decode("utf-8", "replace") + "…"
    return text.decode("utf-8", "replace")
