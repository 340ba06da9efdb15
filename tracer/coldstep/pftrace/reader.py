"""Reads a coldstep trace back, packet by packet, in bounded memory; a file cut anywhere reads up to the cut."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import field
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from coldstep.errors import TraceError
from coldstep.events import Args
from coldstep.pftrace import proto
from coldstep.pftrace.proto import DebugAnnotation, Interned, InternedData, TracePacket, TrackDescriptor, TrackEvent
from coldstep.slotted import slotted

# A trace may come from anybody. What it may hold is bounded by the honest: ours are 7 to 20 times larger unpacked, and
# have two bytes and more on disk for each packet and each of its arguments.
_MAX_BLOCK_BYTES = 1 << 26  # unpacked
_MAX_INFLATION = 32  # times the file's length, and one block
_MAX_PACKET_BYTES = 1 << 24  # of a program's text there are 8 MiB in one
_MAX_TEXT_BYTES = 1 << 20
_MAX_DEPTH = 100
_MAX_FIELDS = 1 << 20  # of one event: a model may have fifty thousand parameters
_MAX_FLOWS = 16
_FREE_PARTS = 300_000  # packets and arguments that the shortest file may have

_MAX_SHAPES = 1 << 14
_MAX_SHAPE_BYTES = 1 << 12
_PACKET = proto.varint(proto.Trace.packet << 3 | proto.BYTES)
_TIMESTAMP = proto.varint(TracePacket.timestamp << 3 | proto.VARINT)
_TITLE = proto.varint(TrackEvent.name << 3 | proto.BYTES)
_HEAD = 1 + proto.TIMESTAMP_SIZE
_time = lru_cache(maxsize=16)(proto.read_timestamp)  # what ends, and what begins then, is of one time


@slotted
class TrackRow:
    """A track's description; comes before the first event on it."""

    uuid: int
    name: str
    parent: int | None
    about: str


@slotted
class EventRow:
    """One event of a track: `kind` is proto.SLICE_BEGIN, SLICE_END, INSTANT or COUNTER; an end has no name, and a
    counter's only argument is its value."""

    kind: int
    ns: int
    track: int
    name: str
    category: str
    args: Args
    flows: tuple[int, ...] = ()


def rows(path: str | Path, said: list[str] | None = None) -> Iterator[TrackRow | EventRow]:
    """The tracks and events of the file, in the order they were written.

    Raises TraceError for a file that is missing, empty, or no Perfetto trace. A cut or damaged tail ends the
    iteration: nothing before it is lost. So does what is larger than coldstep ever writes; `said` is then told.
    """
    return (row for _, row in decoded(path, said) if row is not None)


def decoded(path: str | Path, said: list[str] | None = None) -> Iterator[tuple[bytes, TrackRow | EventRow | None]]:
    """Each packet of the file with its track or event, as `rows` gives them."""
    try:
        with open(path, "rb") as file:
            if not file.peek(1):
                raise TraceError(f"{path} is empty: nothing was ever written to it, trace again")
            yield from _decoded(file, path)
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror}") from None
    except _TooMuch as error:
        if said is not None:
            said.append(f"The file was read up to {error}, which coldstep never writes: what follows is not known.")


class _TooMuch(Exception):
    """What the file goes on with, where that is meant to hurt; no ValueError, since those end a cut file silently."""


def _decoded(file: BinaryIO, path: str | Path) -> Iterator[tuple[bytes, TrackRow | EventRow | None]]:
    decoder, held = Decoder(), 0
    for packet, read in _packets(file, path):
        try:
            row = decoder.decode(packet)
        except ValueError:
            return
        held += 1 if row is None or isinstance(row, TrackRow) else 1 + len(row.args)
        if held + decoder.learnt > _FREE_PARTS + read:
            raise _TooMuch("more packets than a file of its length has")
        yield packet, row


def _packets(file: BinaryIO, path: str | Path) -> Iterator[tuple[bytes, int]]:
    """The packets of the file, those of compressed blocks included, and how much of it has been read."""
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
                yield _small(packet), read
                continue
            del packet  # of the largest there would be a copy more
            content = _inflated(_bytes(block), min(_MAX_BLOCK_BYTES, room + _MAX_INFLATION * read))
            room -= len(content)
            for key, inner in proto.fields(content):
                if key != proto.Trace.packet:
                    raise ValueError("no packet")
                yield _small(_bytes(inner)), read
        except (ValueError, zlib.error):
            return


def _inflated(block: bytes, most: int) -> bytes:
    """The block's content, of at most `most` bytes: a megabyte of zlib can hold a gigabyte."""
    inflate = zlib.decompressobj()
    content = inflate.decompress(block, max(1, most))
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
                values = dict(_fields(_bytes(entry)))
                table[_int(values.get(Interned.iid, 0))] = _text(values.get(Interned.name, b""))
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
        id_ = _int(values.get(TracePacket.trusted_packet_sequence_id, 0))
        self.learnt += 4 * (id_ not in self._sequences)  # its tables are larger than an event
        sequence = self._sequences[id_]
        if interned := values.get(TracePacket.interned_data):
            self.learnt += sequence.learn(_bytes(interned))
        if descriptor := values.get(TracePacket.track_descriptor):
            return _track(_bytes(descriptor))
        if event := values.get(TracePacket.track_event):
            row = self._event(_int(values.get(TracePacket.timestamp, 0)), _bytes(event), sequence)
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
                row.kind = _int(value)
            elif number == TrackEvent.track_uuid:
                row.track = _int(value)
            elif number == TrackEvent.name_iid:
                row.name = sequence.names.get(_int(value), "")
            elif number == TrackEvent.name:
                row.name = _text(value)
            elif number == TrackEvent.category_iids:
                row.category = sequence.categories.get(_int(value), "")
            elif number == TrackEvent.flow_ids and len(flows) < _MAX_FLOWS:
                flows.append(_int(value))
            elif number == TrackEvent.double_counter_value:
                row.args["value"] = proto.as_double(_int(value))
            elif number == TrackEvent.debug_annotations:
                encoded = _bytes(value)
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
                key = sequence.keys.get(_int(item), "")
            elif number == DebugAnnotation.name:
                key = _text(item)
            elif number == DebugAnnotation.string_value:
                value = _text(item)
            elif number == DebugAnnotation.int_value:
                n = _int(item)
                value = n - (1 << 64) if n >> 63 else n
            elif number == DebugAnnotation.bool_value:
                value = bool(item)
            elif number == DebugAnnotation.double_value:
                value = proto.as_double(_int(item))
            elif number == DebugAnnotation.dict_entries:
                name, entry = self._annotation(_bytes(item), sequence, depth + 1)
                entries[name] = entry
            elif number == DebugAnnotation.array_values:
                items.append(self._annotation(_bytes(item), sequence, depth + 1)[1])
        return key, entries or items or value


def _track(descriptor: bytes) -> TrackRow:
    track = dict(_fields(descriptor))
    parent = track.get(TrackDescriptor.parent_uuid)
    return TrackRow(
        _int(track.get(TrackDescriptor.uuid, 0)),
        _text(track.get(TrackDescriptor.name, b"")),
        None if parent is None else _int(parent),
        _text(track.get(TrackDescriptor.description, b"")),
    )


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of one event or of a part of it, of which there are not endlessly many."""
    return islice(proto.fields(message), _MAX_FIELDS)


def _int(value: int | bytes) -> int:
    if not isinstance(value, int):
        raise ValueError("bytes where a number belongs")
    return value


def _bytes(value: int | bytes) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("a number where bytes belong")
    return value


def _text(value: int | bytes) -> str:
    text = _bytes(value)
    if len(text) > _MAX_TEXT_BYTES:
        return text[:_MAX_TEXT_BYTES].decode("utf-8", "replace") + "…"
    return text.decode("utf-8", "replace")
