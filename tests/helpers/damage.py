"""Traces with a few fields changed: each still reads as packets, and no longer makes sense."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

from hostile import packet

from coldstep.pftrace import proto
from coldstep.pftrace.proto import DebugAnnotation, Interned, InternedData, TracePacket, TrackEvent
from coldstep.pftrace.reader import decoded

Shape = dict[int, "Shape"]
_NAMED: Shape = {Interned.name: {}}
_ARGUMENT: Shape = {}
_ARGUMENT |= {DebugAnnotation.dict_entries: _ARGUMENT, DebugAnnotation.array_values: _ARGUMENT}
_PACKET: Shape = {
    TracePacket.track_descriptor: {},
    TracePacket.track_event: {TrackEvent.debug_annotations: _ARGUMENT},
    TracePacket.interned_data: {
        InternedData.event_categories: _NAMED,
        InternedData.event_names: _NAMED,
        InternedData.debug_annotation_names: _NAMED,
    },
}
"""Which fields of a packet hold others."""
_DOUBLES = (DebugAnnotation.double_value, TrackEvent.double_counter_value)
_VALUES = (
    DebugAnnotation.bool_value, DebugAnnotation.int_value, DebugAnnotation.double_value, DebugAnnotation.string_value,
    DebugAnnotation.dict_entries, DebugAnnotation.array_values,
)  # fmt: skip
_NUMBERS = (0, 1, 2, 3, 4, 7, -1, -(1 << 40), 1 << 31, 1 << 53, (1 << 62) + 1, (1 << 63) - 1)
_REALS = (0.0, -1.5, 1e308, float("inf"), float("-inf"), float("nan"))
_TEXTS = (b"", b"x", b"steps", b"torch", b"0", b"c0", b"\xff\xfe", b"\x1b[31m", b"a/b.py", b"9" * 40)

Field = tuple[int, int | bytes]


def changed(trace: Path, seed: int) -> bytes:
    """The packets of a trace, some of them changed, gone, or there twice."""
    random = Random(seed)
    packets = [body for body, _ in decoded(trace)]
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(packets))
        what = random.randrange(10)
        if what == 0:
            del packets[at]
        elif what == 1:
            packets.insert(random.randrange(len(packets)), packets[at])
        else:
            packets[at] = _message(packets[at], _PACKET, random)
    return b"".join(map(packet, packets))


def _message(message: bytes, shape: Shape, random: Random) -> bytes:
    """The same message with a leaf of it changed."""
    try:
        found: list[Field] = list(proto.fields(message))
    except ValueError:  # a text where there was a message, by a change before this one
        return message
    if not found:
        return message
    inner = [at for at, (number, _) in enumerate(found) if number in shape]
    at = random.choice(inner) if inner and random.random() < 0.8 else random.randrange(len(found))
    number, value = found[at]
    if number in shape and isinstance(value, bytes) and random.random() < 0.9:
        found[at] = number, _message(value, shape[number], random)
    elif shape is _ARGUMENT and number in _VALUES:
        found[at] = _value(random)
    elif random.randrange(8) == 0:
        del found[at]
    elif isinstance(value, bytes):
        found[at] = number, random.choice(_TEXTS)
    else:
        found[at] = number, random.choice(_NUMBERS)
    return b"".join(_encoded(*field) for field in found)


def _value(random: Random) -> Field:
    """An argument's value, of any type."""
    number = random.choice(_VALUES)
    made: dict[int, Callable[[], int | bytes]] = {
        DebugAnnotation.bool_value: lambda: random.randrange(2),
        DebugAnnotation.int_value: lambda: random.choice(_NUMBERS),
        DebugAnnotation.string_value: lambda: random.choice(_TEXTS),
    }
    if number in made:
        return number, made[number]()
    if number == DebugAnnotation.double_value:
        return number, int.from_bytes(proto.double(1, random.choice(_REALS))[1:], "little")
    name = proto.data(DebugAnnotation.name, random.choice(_TEXTS)) if number == DebugAnnotation.dict_entries else b""
    return number, name + _encoded(*_value(random))


def _encoded(number: int, value: int | bytes) -> bytes:
    if isinstance(value, bytes):
        return proto.data(number, value)
    return proto.fixed64(number, value & (1 << 64) - 1) if number in _DOUBLES else proto.number(number, value)
