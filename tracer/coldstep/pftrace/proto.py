"""The few Perfetto messages that coldstep writes and reads: field numbers, and protobuf's wire format.

The messages are encoded by hand because protobuf's runtime must not be imported into the traced process: it
costs 0.1 s and refuses to work beside another version of itself. A test holds every number below against the
official descriptors of the `perfetto` package.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import lru_cache


class Trace:
    """perfetto.protos.Trace"""

    packet = 1


class TracePacket:
    """perfetto.protos.TracePacket"""

    clock_snapshot = 6
    timestamp = 8
    trusted_packet_sequence_id = 10
    track_event = 11
    interned_data = 12
    sequence_flags = 13
    compressed_packets = 50
    trace_packet_defaults = 59
    track_descriptor = 60


class TracePacketDefaults:
    """perfetto.protos.TracePacketDefaults"""

    timestamp_clock_id = 58


class ClockSnapshot:
    """perfetto.protos.ClockSnapshot"""

    clocks = 1
    primary_trace_clock = 2


class Clock:
    """perfetto.protos.ClockSnapshot.Clock"""

    clock_id = 1
    timestamp = 2


class TrackDescriptor:
    """perfetto.protos.TrackDescriptor"""

    uuid = 1
    name = 2
    parent_uuid = 5
    counter = 8
    child_ordering = 11
    sibling_order_rank = 12
    description = 14


class CounterDescriptor:
    """perfetto.protos.CounterDescriptor"""

    unit = 3
    unit_name = 6


class TrackEvent:
    """perfetto.protos.TrackEvent"""

    category_iids = 3
    debug_annotations = 4
    type = 9
    name_iid = 10
    track_uuid = 11
    name = 23
    double_counter_value = 44
    flow_ids = 47


class DebugAnnotation:
    """perfetto.protos.DebugAnnotation"""

    name_iid = 1
    bool_value = 2
    int_value = 4
    double_value = 5
    string_value = 6
    name = 10
    dict_entries = 11
    array_values = 12


class InternedData:
    """perfetto.protos.InternedData"""

    event_categories = 1
    event_names = 2
    debug_annotation_names = 3


class Interned:
    """perfetto.protos.EventCategory, EventName and DebugAnnotationName share this shape."""

    iid = 1
    name = 2


SLICE_BEGIN, SLICE_END, INSTANT, COUNTER = 1, 2, 3, 4  # TrackEvent.Type
SIZE_BYTES = 3  # CounterDescriptor.Unit
EXPLICIT = 3  # TrackDescriptor.ChildTracksOrdering
INCREMENTAL_STATE_CLEARED, NEEDS_INCREMENTAL_STATE = 1, 2  # TracePacket.SequenceFlags
REALTIME, MONOTONIC, BOOTTIME = 1, 3, 6  # BuiltinClock

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # wire types


_ONE_BYTE = [bytes([n]) for n in range(128)]


def varint(n: int) -> bytes:
    """`n`, or its 64-bit two's complement when negative, as a base-128 varint."""
    if 0 <= n < 128:
        return _ONE_BYTE[n]
    n &= 0xFFFF_FFFF_FFFF_FFFF
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def number(field: int, n: int) -> bytes:
    """An integer field."""
    return varint(field << 3 | VARINT) + varint(n)


def data(field: int, payload: bytes) -> bytes:
    """A text, bytes or message field."""
    return varint(field << 3 | BYTES) + varint(len(payload)) + payload


def fixed64(field: int, n: int) -> bytes:
    """A fixed64 field."""
    return varint(field << 3 | FIXED64) + struct.pack("<Q", n)


def double(field: int, x: float) -> bytes:
    """A double field."""
    return varint(field << 3 | FIXED64) + struct.pack("<d", x)


TIMESTAMP_SIZE = 8


def timestamp(ns: int) -> bytes:
    """`ns` (below 2**56: 833 days after boot) as a varint padded to eight bytes, so that a packet's length is
    known before its time is: seven bits spread into each byte in two doublings, the upper four bytes remembered."""
    n = ns & 0xFFFFFFF
    n = (n & 0x3FFF) | (n & 0xFFFC000) << 2
    n = (n & 0x7F007F) | (n & 0x3F803F80) << 1 | 0x80808080
    return n.to_bytes(4, "little") + _upper(ns >> 28)


@lru_cache(maxsize=16)
def _upper(n: int) -> bytes:
    n = (n & 0x3FFF) | (n & 0xFFFC000) << 2
    n = (n & 0x7F007F) | (n & 0x3F803F80) << 1 | 0x808080
    return n.to_bytes(4, "little")


def read_timestamp(packet: bytes) -> int:
    """The time stamp that `timestamp` padded to eight bytes, of a packet that begins with its key: the way back."""
    n = int.from_bytes(packet[1 : 1 + TIMESTAMP_SIZE], "little") & 0x7F7F7F7F7F7F7F7F
    n = (n & 0x7F007F007F007F) | (n & 0x7F007F007F007F00) >> 1
    n = (n & 0x3FFF00003FFF) | (n & 0x3FFF00003FFF0000) >> 2
    return (n & 0xFFFFFFF) | (n & 0xFFFFFFF00000000) >> 4


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The (field number, value) pairs of a message. Raises ValueError where it is not protobuf."""
    at, end = 0, len(message)
    try:
        while at < end:
            key = message[at]
            at += 1
            if key > 127:
                key, at = _varint(message, at - 1)
            kind = key & 7
            if kind == VARINT:
                value: int | bytes = message[at]
                at += 1
                if value > 127:  # type: ignore[operator]  # an int here: bytes come only from the branches below
                    value, at = _varint(message, at - 1)
            elif kind == BYTES:
                size = message[at]
                at += 1
                if size > 127:
                    size, at = _varint(message, at - 1)
                value = message[at : at + size]
                at += size
            elif kind == FIXED64:
                (value,) = struct.unpack_from("<Q", message, at)
                at += 8
            elif kind == FIXED32:
                (value,) = struct.unpack_from("<I", message, at)
                at += 4
            else:
                raise ValueError(f"wire type {kind}")
            yield key >> 3, value
    except (IndexError, struct.error):
        raise ValueError("a message is cut") from None
    if at != end:
        raise ValueError("a message is cut")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    n = shift = 0
    while True:
        byte = message[at]
        at += 1
        n |= (byte & 127) << shift
        if byte < 128:
            return n & 0xFFFF_FFFF_FFFF_FFFF, at
        shift += 7
        if shift > 63:
            raise ValueError("a varint of more than ten bytes")


def as_bytes(value: int | bytes) -> bytes:
    """A field's bytes. Raises ValueError for a number."""
    if not isinstance(value, bytes):
        raise ValueError("a number where bytes belong")
    return value


def as_int(value: int | bytes) -> int:
    """A field's number. Raises ValueError for bytes."""
    if not isinstance(value, int):
        raise ValueError("bytes where a number belongs")
    return value


def as_signed(number: int) -> int:
    """The number that a field of 64 bits holds, which may be below 0."""
    return number - (1 << 64) if number >> 63 else number


def as_double(bits: int) -> float:
    """The double whose 64 bits a fixed64 field holds."""
    (value,) = struct.unpack("<d", struct.pack("<Q", bits))
    return float(value)
