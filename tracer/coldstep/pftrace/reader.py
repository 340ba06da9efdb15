"""Reads a coldstep trace back, packet by packet, in bounded memory; a file cut anywhere reads up to the cut."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

from coldstep.errors import TraceError
from coldstep.events import Args
from coldstep.pftrace import proto
from coldstep.pftrace.proto import DebugAnnotation, Interned, InternedData, TracePacket, TrackDescriptor, TrackEvent

_CHUNK = 1 << 20
_LARGEST_PACKET = 1 << 28
_MOST_SHAPES = 1 << 14
_TIMESTAMP = proto.varint(TracePacket.timestamp << 3 | proto.VARINT)
_TITLE = proto.varint(TrackEvent.name << 3 | proto.BYTES)
_HEAD = 1 + proto.TIMESTAMP_SIZE
_time = lru_cache(maxsize=16)(proto.read_timestamp)  # what ends, and what begins then, is of one time


@dataclass(slots=True)
class TrackRow:
    """A track's description; comes before the first event on it."""

    uuid: int
    name: str
    parent: int | None
    about: str


@dataclass(slots=True)
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


def rows(path: str | Path) -> Iterator[TrackRow | EventRow]:
    """The tracks and events of the file, in the order they were written.

    Raises TraceError for a file that is missing, empty, or no Perfetto trace. A cut or damaged tail ends the
    iteration: nothing before it is lost.
    """
    decode = Decoder().decode
    for packet in packets(path):
        try:
            row = decode(packet)
        except ValueError:
            return
        if row is not None:
            yield row


def packets(path: str | Path) -> Iterator[bytes]:
    """The packets of the file, those of compressed blocks included; raises and ends as `rows` does."""
    try:
        with open(path, "rb") as file:
            if not file.peek(1):
                raise TraceError(f"{path} is empty: nothing was ever written to it, trace again")
            yield from _packets(file, path)
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror}") from None


def _packets(file: BinaryIO, path: str | Path) -> Iterator[bytes]:
    first = True
    buffer, at = b"", 0
    while True:
        try:
            size, start = _header(buffer, at)
        except ValueError:
            if first:
                raise TraceError(f"{path} is not a Perfetto trace: give a .pftrace that coldstep wrote") from None
            return
        if size is None or start + size > len(buffer):
            more = file.read(_CHUNK)
            if not more:
                return
            buffer, at = buffer[at:] + more, 0
            continue
        at = start + size
        packet = buffer[start:at]
        first = False
        try:
            block = next((v for k, v in proto.fields(packet) if k == TracePacket.compressed_packets), None)
            if block is None:
                yield packet
            else:
                for key, inner in proto.fields(zlib.decompress(block)):  # type: ignore[arg-type]
                    if key == proto.Trace.packet and isinstance(inner, bytes):
                        yield inner
        except (ValueError, zlib.error):
            return


def _header(buffer: bytes, at: int) -> tuple[int | None, int]:
    """The size and start of the packet at `at`; (None, 0) when the buffer ends within its header."""
    if at >= len(buffer):
        return None, 0
    if buffer[at] != proto.Trace.packet << 3 | proto.BYTES:
        raise ValueError("no packet")
    size = shift = 0
    for start in range(at + 1, min(at + 11, len(buffer))):
        size |= (buffer[start] & 127) << shift
        if buffer[start] < 128:
            if size > _LARGEST_PACKET:
                raise ValueError("no packet is that large")
            return size, start + 1
        shift += 7
    if len(buffer) - at > 10:
        raise ValueError("no length")
    return None, 0


@dataclass(slots=True)
class _Sequence:
    """The interned texts of one packet sequence."""

    categories: dict[int, str] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    keys: dict[int, str] = field(default_factory=dict)
    seen: dict[bytes, tuple[str, object]] = field(default_factory=dict)  # encoded plain annotations, decoded once

    def learn(self, interned: bytes) -> None:
        tables = {
            InternedData.event_categories: self.categories,
            InternedData.event_names: self.names,
            InternedData.debug_annotation_names: self.keys,
        }
        for number, entry in proto.fields(interned):
            if (table := tables.get(number)) is not None:
                values = dict(proto.fields(_bytes(entry)))
                table[_int(values.get(Interned.iid, 0))] = _text(values.get(Interned.name, b""))


class Decoder:
    """Packets to rows. What differs only in its time, or also in the title that it ends with, is decoded once."""

    def __init__(self) -> None:
        self._sequences: dict[int, _Sequence] = defaultdict(_Sequence)
        self._shapes: dict[bytes, tuple[int, int, str, str]] = {}
        self._titled: dict[bytes, tuple[int, int, str, Args]] = {}

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
        values = dict(proto.fields(packet))
        sequence = self._sequences[_int(values.get(TracePacket.trusted_packet_sequence_id, 0))]
        if interned := values.get(TracePacket.interned_data):
            sequence.learn(_bytes(interned))
        if descriptor := values.get(TracePacket.track_descriptor):
            return _track(_bytes(descriptor))
        if event := values.get(TracePacket.track_event):
            row = _event(_int(values.get(TracePacket.timestamp, 0)), _bytes(event), sequence)
            if row.flows or _time(head) != row.ns or len(self._shapes) + len(self._titled) >= _MOST_SHAPES:
                return row
            if title and row.name == _text(title):
                self._titled[front] = row.kind, row.track, row.category, row.args.copy()
            elif not row.args:
                self._shapes[tail] = row.kind, row.track, row.name, row.category
            return row
        return None


def _track(descriptor: bytes) -> TrackRow:
    track = dict(proto.fields(descriptor))
    parent = track.get(TrackDescriptor.parent_uuid)
    return TrackRow(
        _int(track.get(TrackDescriptor.uuid, 0)),
        _text(track.get(TrackDescriptor.name, b"")),
        None if parent is None else _int(parent),
        _text(track.get(TrackDescriptor.description, b"")),
    )


def _event(ns: int, event: bytes, sequence: _Sequence) -> EventRow:
    row = EventRow(0, ns, 0, "", "", {})
    for number, value in proto.fields(event):
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
        elif number == TrackEvent.flow_ids:
            row.flows += (_int(value),)
        elif number == TrackEvent.double_counter_value:
            row.args["value"] = proto.as_double(_int(value))
        elif number == TrackEvent.debug_annotations:
            encoded = _bytes(value)
            known = sequence.seen.get(encoded)
            if known is None:
                known = _annotation(encoded, sequence)
                if isinstance(known[1], str | int) and len(sequence.seen) < _MOST_SHAPES:
                    sequence.seen[encoded] = known
            row.args[known[0]] = known[1]
    return row


def _annotation(annotation: bytes, sequence: _Sequence) -> tuple[str, object]:
    key, value = "", None  # type: str, object
    entries: dict[str, object] = {}
    items: list[object] = []
    for number, item in proto.fields(annotation):
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
            name, entry = _annotation(_bytes(item), sequence)
            entries[name] = entry
        elif number == DebugAnnotation.array_values:
            items.append(_annotation(_bytes(item), sequence)[1])
    return key, entries or items or value


def _int(value: int | bytes) -> int:
    if not isinstance(value, int):
        raise ValueError("bytes where a number belongs")
    return value


def _bytes(value: int | bytes) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("a number where bytes belong")
    return value


def _text(value: int | bytes) -> str:
    return _bytes(value).decode("utf-8", "replace")
