"""Writes native Perfetto protobuf, append only: the file is valid after every `flush`.

One packet sequence per process, names interned on it. `flush` compresses the packets gathered since the last
one into one `compressed_packets` packet and writes it with a single `write`; a file cut anywhere loses at most
its last, incomplete block.
"""

from __future__ import annotations

import contextlib
import errno
import os
import zlib
from bisect import bisect_right
from itertools import accumulate

from coldstep.clock import Snapshot
from coldstep.events import Args
from coldstep.pftrace import proto
from coldstep.pftrace.proto import (
    Clock,
    ClockSnapshot,
    CounterDescriptor,
    DebugAnnotation,
    Interned,
    InternedData,
    TracePacket,
    TrackDescriptor,
    TrackEvent,
    data,
    double,
    fixed64,
    number,
)

Flows = tuple[int, ...]
_SMALL = range(128)
_INT64 = range(-(1 << 63), 1 << 63)
_TIMESTAMP = proto.varint(TracePacket.timestamp << 3 | proto.VARINT)
_MAX_BLOCK_BYTES = 1 << 24  # before it is compressed; one larger than four times that would be refused by the reader
OPEN_END = proto.varint(proto.Trace.packet << 3 | proto.BYTES) + proto.varint((1 << 28) - 1)
"""What a file ends with while it is written: the head of a packet that never comes. Whatever is written behind it, by
the signal that ends the process, is a cut packet to any reader; the next block takes its place."""
_MAX_INTERNED = 4096
"""Names beyond this number are written out each time: a name per batch must not fill the user's memory."""


class Writer:
    """Packets of one sequence, on their way to the file descriptor `fd`."""

    def __init__(self, fd: int, sequence: int, start: Snapshot) -> None:
        self.behind = b""
        """What is written behind each block, and replaced by the next."""
        self._fd = fd
        self._file = _identity(fd)
        self._sequence = number(TracePacket.trusted_packet_sequence_id, sequence)
        self._event_head = self._sequence + number(TracePacket.sequence_flags, proto.NEEDS_INCREMENTAL_STATE)
        self._packets: list[bytes] = []
        self._iids: dict[tuple[int, str], int] = {}
        self._args: dict[tuple[str, type, object], bytes] = {}
        self._shapes: dict[tuple[int, int, str, str], tuple[bytes, bytes, bytes]] = {}
        self._written = 0
        cleared = number(TracePacket.sequence_flags, proto.INCREMENTAL_STATE_CLEARED)
        defaults = number(proto.TracePacketDefaults.timestamp_clock_id, proto.MONOTONIC)
        self._packet(self._sequence + cleared + data(TracePacket.trace_packet_defaults, defaults))
        self.clocks(start)

    def clocks(self, at: Snapshot) -> None:
        """Say how the monotonic clock stood against the others."""
        readings = {proto.MONOTONIC: at.monotonic_ns, proto.BOOTTIME: at.boottime_ns, proto.REALTIME: at.realtime_ns}
        clocks = [number(Clock.clock_id, clock) + number(Clock.timestamp, ns) for clock, ns in readings.items()]
        snapshot = b"".join([data(ClockSnapshot.clocks, clock) for clock in clocks])
        snapshot += number(ClockSnapshot.primary_trace_clock, proto.MONOTONIC)
        self._packet(self._sequence + data(TracePacket.clock_snapshot, snapshot))

    def track(
        self,
        uuid: int,
        name: str,
        *,
        parent: int | None = None,
        rank: int = 0,
        ordered: bool = False,
        about: str = "",
        unit: str | None = None,
    ) -> None:
        """Describe a track; `ordered` puts its children in the order of their ranks, `about` is its description.

        With a `unit` ("bytes", or the kind of thing counted) it is a counter's.
        """
        descriptor = number(TrackDescriptor.uuid, uuid) + data(TrackDescriptor.name, _utf8(name))
        if parent is not None:
            descriptor += number(TrackDescriptor.parent_uuid, parent)
        descriptor += number(TrackDescriptor.sibling_order_rank, rank)
        if ordered:
            descriptor += number(TrackDescriptor.child_ordering, proto.EXPLICIT)
        if about:
            descriptor += data(TrackDescriptor.description, _utf8(about))
        if unit is not None:
            in_bytes = number(CounterDescriptor.unit, proto.SIZE_BYTES)
            named = in_bytes if unit == "bytes" else data(CounterDescriptor.unit_name, _utf8(unit))
            descriptor += data(TrackDescriptor.counter, named)
        self._packet(self._sequence + data(TracePacket.track_descriptor, descriptor))

    def begin(
        self,
        ns: int,
        track: int,
        name: str,
        category: str = "",
        args: Args | None = None,
        flows: Flows = (),
        title: str = "",
    ) -> None:
        """A slice begins. Slices of one track must nest; at equal times the order of the calls decides.

        A name that no other slice will have goes into `title`, and `name` is empty.
        """
        self._event(proto.SLICE_BEGIN, ns, track, name, category, args, flows, title)

    def end(self, ns: int, track: int, args: Args | None = None, flows: Flows = ()) -> None:
        """The innermost open slice of the track ends; `args` and `flows` are added to it."""
        self._event(proto.SLICE_END, ns, track, "", "", args, flows)

    def instant(self, ns: int, track: int, name: str, category: str = "", args: Args | None = None) -> None:
        """Something without a duration."""
        self._event(proto.INSTANT, ns, track, name, category, args, ())

    def counter(self, ns: int, track: int, value: float) -> None:
        """A point of a counter's curve."""
        event = number(TrackEvent.type, proto.COUNTER) + number(TrackEvent.track_uuid, track)
        event += double(TrackEvent.double_counter_value, value)
        self._packet(_TIMESTAMP + proto.timestamp(ns) + self._event_head + data(TracePacket.track_event, event))

    def copy(self, packet: bytes) -> None:
        """A packet of another trace, as it is."""
        self._packet(packet)

    @property
    def gathered(self) -> list[bytes]:
        """The packets that are not written yet, each with its length in front."""
        return self._packets

    def packets(self, made: bytes) -> None:
        """Packets of this sequence, each with its length in front."""
        self._packets.append(made)

    def flush(self) -> None:
        """Write what has been gathered, as one block; as several where it is much, for a reader has to hold them.

        Raises OSError; the block that was not written, and those behind it, are then kept for the next try.
        """
        while self._packets:
            if not self._is_ours():
                raise OSError(errno.EBADF, "the program has closed its file")
            sizes = list(accumulate(map(len, self._packets)))
            self._write(max(1, bisect_right(sizes, _MAX_BLOCK_BYTES)))

    def cut(self) -> None:
        """Have the file end with its last block."""
        self.behind = b""
        if self._is_ours():
            os.ftruncate(self._fd, self._written)

    def close(self) -> None:
        """Close the file, unless the program has done so: the descriptor may be another file's by now."""
        if self._is_ours():
            with contextlib.suppress(OSError):
                os.close(self._fd)

    def _is_ours(self) -> bool:
        try:
            return _identity(self._fd) == self._file
        except OSError:
            return False

    def _write(self, first: int) -> None:
        """Write the first `first` packets."""
        block = zlib.compress(b"".join(self._packets[:first]), 1)
        packet = data(proto.Trace.packet, data(TracePacket.compressed_packets, block))
        view = memoryview(packet + self.behind)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
            if self.behind:
                os.lseek(self._fd, self._written + len(packet), os.SEEK_SET)
        except OSError:
            # half a block would hide whatever is appended after it
            with contextlib.suppress(OSError):  # a device cannot be cut
                os.ftruncate(self._fd, self._written)
                os.lseek(self._fd, self._written, os.SEEK_SET)
            raise
        del self._packets[:first]
        self._written += len(packet)

    def _packet(self, body: bytes) -> None:
        self._packets.append(data(proto.Trace.packet, body))

    def _event(
        self, kind: int, ns: int, track: int, name: str, category: str, args: Args | None, flows: Flows, title: str = ""
    ) -> None:
        shape = self._shapes.get((kind, track, name, category))
        if shape is None:
            shape = self._shape(kind, track, name, category)
        event, fixed, tail = shape
        if not args and not flows and not title:
            self._packets.append(fixed + proto.timestamp(ns) + tail)
            return
        if args:
            event += b"".join([self._arg(key, value) for key, value in args.items()])
        if title:
            event += data(TrackEvent.name, _utf8(title))
        for flow in flows:
            event += fixed64(TrackEvent.flow_ids, flow)
        body = _TIMESTAMP + proto.timestamp(ns) + self._event_head + data(TracePacket.track_event, event)
        self._packet(body)

    def _shape(self, kind: int, track: int, name: str, category: str) -> tuple[bytes, bytes, bytes]:
        """The fields of every such event, and all that its packet has before and after the time stamp."""
        event = number(TrackEvent.type, kind) + number(TrackEvent.track_uuid, track)
        if category:
            event += number(TrackEvent.category_iids, self._intern(InternedData.event_categories, category) or 0)
        if name:
            iid = self._intern(InternedData.event_names, name)
            event += number(TrackEvent.name_iid, iid) if iid else data(TrackEvent.name, _utf8(name))
        tail = self._event_head + data(TracePacket.track_event, event)
        size = len(_TIMESTAMP) + proto.TIMESTAMP_SIZE + len(tail)
        shape = event, proto.varint(proto.Trace.packet << 3 | proto.BYTES) + proto.varint(size) + _TIMESTAMP, tail
        if len(self._shapes) < _MAX_INTERNED:
            self._shapes[kind, track, name, category] = shape
        return shape

    def _intern(self, table: int, text: str) -> int | None:
        """The text's id on this sequence; None when it has none and there are too many already."""
        iid = self._iids.get((table, text))
        if iid is None and (len(self._iids) < _MAX_INTERNED or table == InternedData.event_categories):
            entry = data(table, number(Interned.iid, len(self._iids) + 1) + data(Interned.name, _utf8(text)))
            self._packet(self._event_head + data(TracePacket.interned_data, entry))
            iid = self._iids[table, text] = len(self._iids) + 1
        return iid

    def _arg(self, key: str, value: object) -> bytes:
        """A debug annotation of an event, or nothing for a value that has none."""
        known = (key, type(value), value)
        try:
            return self._args[known]
        except (KeyError, TypeError):  # TypeError: a list or dict
            annotation = self._annotation(value, key)
        arg = data(TrackEvent.debug_annotations, annotation) if annotation is not None else b""
        repeats = isinstance(value, str) or (isinstance(value, int) and value in _SMALL)
        if repeats and len(self._args) < _MAX_INTERNED:
            self._args[known] = arg
        return arg

    def _annotation(self, value: object, key: str | None = None) -> bytes | None:
        """A DebugAnnotation; None for what has no value (None, an empty list or dict), which is left out."""
        if isinstance(value, bool):
            payload = number(DebugAnnotation.bool_value, value)
        elif isinstance(value, int) and value in _INT64:
            payload = number(DebugAnnotation.int_value, value)
        elif isinstance(value, float):
            payload = double(DebugAnnotation.double_value, value)
        elif isinstance(value, dict):
            entries = [self._annotation(item, str(name)) for name, item in value.items()]
            payload = b"".join([data(DebugAnnotation.dict_entries, each) for each in entries if each is not None])
        elif isinstance(value, list | tuple):
            entries = list(map(self._annotation, value))
            payload = b"".join([data(DebugAnnotation.array_values, each) for each in entries if each is not None])
        elif value is None:
            payload = b""
        else:
            payload = data(DebugAnnotation.string_value, _utf8(str(value)))
        if not payload:
            return None
        if key is None:
            return payload
        iid = self._intern(InternedData.debug_annotation_names, key)
        return (number(DebugAnnotation.name_iid, iid) if iid else data(DebugAnnotation.name, _utf8(key))) + payload


def _identity(fd: int) -> tuple[int, int]:
    """Which file a descriptor stands for."""
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


def _utf8(text: str) -> bytes:
    # lone surrogates (a file name that is no UTF-8) are no valid protobuf string
    return text.encode("utf-8", "replace")
