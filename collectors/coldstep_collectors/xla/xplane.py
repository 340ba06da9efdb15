"""Reads an XSpace, the result of XLA's profiler, with the standard library alone: lines of events, plane by plane."""

from __future__ import annotations

from collections.abc import Iterator

from coldstep._util.slotted import slotted
from coldstep._util.xplane_proto import Metadata, XEvent, XLine, XPlane, XSpace, XStat
from coldstep.pftrace.proto import as_bytes, fields

Stat = int | str

_NAMES = (Metadata.name, Metadata.display_name)  # of a TPU's operation: the whole instruction, what it is called


@slotted
class Event:
    """One event; times in nanoseconds on the profiler's clock."""

    name: str
    start_ns: int
    end_ns: int
    stats: dict[str, Stat]


@slotted
class Line:
    """A thread's or a stream's events; `dropped` counts those that had to make room, the first in the file."""

    plane: str
    name: str
    events: list[Event]
    dropped: int


def count(xspace: bytes) -> int:
    """How many events it holds."""
    return sum(
        number == XLine.events
        for plane in _messages(xspace, XSpace.planes)
        for line in _messages(plane, XPlane.lines)
        for number, _ in fields(line)
    )


def lines(xspace: bytes, most: int) -> Iterator[Line]:
    """All lines that have events, with at most `most` of them each. Raises ValueError where it is no XSpace."""
    for plane in _messages(xspace, XSpace.planes):
        about = _Plane(plane)
        for line in about.lines:
            yield about.line(line, most)


class _Plane:
    """One plane: a device, or the host. Names of events and of statistics are kept once per plane."""

    def __init__(self, plane: bytes) -> None:
        self.name = ""
        self.lines: list[bytes] = []
        self._events: dict[int, str] = {}
        self._stats: dict[int, str] = {}
        for number, value in fields(plane):
            if number == XPlane.name:
                self.name = _text(value)
            elif number == XPlane.lines:
                self.lines.append(as_bytes(value))
            elif number == XPlane.event_metadata:
                self._learn(self._events, as_bytes(value))
            elif number == XPlane.stat_metadata:
                self._learn(self._stats, as_bytes(value))

    def _learn(self, names: dict[int, str], entry: bytes) -> None:
        key, value = 0, b""
        for number, part in fields(entry):  # a map's entry: key and value
            if number == 1:
                key = _int(part)
            else:
                value = as_bytes(part)
        texts = {number: _text(part) for number, part in fields(value) if number in _NAMES}
        names[key] = texts.get(Metadata.display_name) or texts.get(Metadata.name, "")

    def line(self, line: bytes, most: int) -> Line:
        name, shown, start_ns = "", "", 0
        events: list[bytes] = []
        for number, value in fields(line):
            if number == XLine.events:
                events.append(as_bytes(value))
            elif number == XLine.name:
                name = _text(value)
            elif number == XLine.display_name:
                shown = _text(value)
            elif number == XLine.timestamp_ns:
                start_ns = _int(value)
        dropped = max(0, len(events) - most)
        return Line(self.name, shown or name, [self._event(event, start_ns) for event in events[dropped:]], dropped)

    def _event(self, event: bytes, line_ns: int) -> Event:
        name, offset, duration = "", 0, 0
        stats: dict[str, Stat] = {}
        for number, value in fields(event):
            if number == XEvent.metadata_id:
                name = self._events.get(_int(value), "")
            elif number == XEvent.offset_ps:
                offset = _int(value)
            elif number == XEvent.duration_ps:
                duration = _int(value)
            elif number == XEvent.stats:
                self._stat(as_bytes(value), stats)
        return Event(name, line_ns + offset // 1000, line_ns + (offset + duration) // 1000, stats)

    def _stat(self, stat: bytes, stats: dict[str, Stat]) -> None:
        name = ""
        parsed: Stat | None = None
        for number, value in fields(stat):
            if number == XStat.metadata_id:
                name = self._stats.get(_int(value), "")
            elif number == XStat.str_value:
                parsed = _text(value)
            elif number == XStat.ref_value:
                parsed = self._stats.get(_int(value), "")
            elif number in (XStat.uint64_value, XStat.int64_value):
                parsed = _int(value)
        if parsed is not None:
            stats[name] = parsed


def _messages(message: bytes, wanted: int) -> Iterator[bytes]:
    return (as_bytes(value) for number, value in fields(message) if number == wanted)


def _int(value: int | bytes) -> int:
    if not isinstance(value, int):
        raise ValueError("bytes where a number belongs")
    return value - (1 << 64) if value >> 63 else value


def _text(value: int | bytes) -> str:
    return as_bytes(value).decode("utf-8", "replace")
