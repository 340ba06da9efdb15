"""Reads an XSpace, the result of XLA's profiler, with the standard library alone: lines of events, plane by plane."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from coldstep._util.slotted import slotted
from coldstep._util.xplane_proto import Metadata, XEvent, XLine, XPlane, XSpace, XStat
from coldstep.pftrace.proto import as_bytes, as_int, as_signed, fields, number

Stat = int | str

_LOOKED_AT = 4096  # of all events, to see from when on they are few enough

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
    """A thread's or a stream's events; `dropped` counts those that had to make room, the oldest."""

    plane: str
    name: str
    events: list[Event]
    dropped: int


def count(xspace: bytes) -> int:
    """How many events it holds."""
    return sum(
        field == XLine.events
        for plane in _messages(xspace, XSpace.planes)
        for line in _messages(plane, XPlane.lines)
        for field, _ in fields(line)
    )


def lines(xspace: bytes, most: int, kept: Sequence[str] = ()) -> Iterator[Line]:
    """All lines that have events, with about the latest `most` events of all lines together, and each event of one of
    the names that are to be `kept`. Raises ValueError where it is no XSpace."""
    unread = [about.line(line) for about in map(_Plane, _messages(xspace, XSpace.planes)) for line in about.lines]
    since = _since(unread, most)
    for line in unread:
        yield line.read(since, kept)


def _since(unread: list[_Line], most: int) -> int:
    """From when on all lines together have about so many events."""
    whole = sum(len(line.events) for line in unread)
    if whole <= most:
        return 0
    each = whole // _LOOKED_AT + 1
    begins = sorted(line.start_ns(at) for line in unread for at in range(0, len(line.events), each))
    return begins[min((whole - most) // each + 1, len(begins) - 1)]


@slotted
class _Line:
    """One whose events are not read yet, in the order of time."""

    plane: _Plane
    name: str
    line_ns: int
    events: list[bytes]

    def start_ns(self, at: int) -> int:
        """When an event began."""
        offset = next((value for field, value in fields(self.events[at]) if field == XEvent.offset_ps), 0)
        return self.line_ns + _int(offset) // 1000

    def read(self, since: int, kept: Sequence[str]) -> Line:
        """The events since then, and those to be kept."""
        at = bisect_left(range(len(self.events)), since, key=self.start_ns) if since else 0
        begins = tuple(self.plane.begin(name) for name in kept) if at else ()
        earlier = [event for event in self.events[:at] if event.startswith(begins)] if begins else []
        events = [self.plane.event(event, self.line_ns) for event in (*earlier, *self.events[at:])]
        return Line(self.plane.name, self.name, events, at - len(earlier))


class _Plane:
    """One plane: a device, or the host. Names of events and of statistics are kept once per plane."""

    def __init__(self, plane: bytes) -> None:
        self.name = ""
        self.lines: list[bytes] = []
        self._events: dict[int, str] = {}
        self._stats: dict[int, str] = {}
        for field, value in fields(plane):
            if field == XPlane.name:
                self.name = _text(value)
            elif field == XPlane.lines:
                self.lines.append(as_bytes(value))
            elif field == XPlane.event_metadata:
                self._learn(self._events, as_bytes(value))
            elif field == XPlane.stat_metadata:
                self._learn(self._stats, as_bytes(value))

    def _learn(self, names: dict[int, str], entry: bytes) -> None:
        key, value = 0, b""
        for field, part in fields(entry):  # a map's entry: key and value
            if field == 1:
                key = _int(part)
            else:
                value = as_bytes(part)
        texts = {field: _text(part) for field, part in fields(value) if field in _NAMES}
        names[key] = texts.get(Metadata.display_name) or texts.get(Metadata.name, "")

    def begin(self, name: str) -> bytes:
        """How an event of that name begins: with the number of its name."""
        key = next((key for key, event in self._events.items() if event == name), None)
        return b"\xff" if key is None else number(XEvent.metadata_id, key)

    def line(self, line: bytes) -> _Line:
        """What of a line is known without reading its events."""
        name, shown, start_ns = "", "", 0
        events: list[bytes] = []
        for field, value in fields(line):
            if field == XLine.events:
                events.append(as_bytes(value))
            elif field == XLine.name:
                name = _text(value)
            elif field == XLine.display_name:
                shown = _text(value)
            elif field == XLine.timestamp_ns:
                start_ns = _int(value)
        return _Line(self, shown or name, start_ns, events)

    def event(self, event: bytes, line_ns: int) -> Event:
        """One event of a line that began then."""
        name, offset, duration = "", 0, 0
        stats: dict[str, Stat] = {}
        for field, value in fields(event):
            if field == XEvent.metadata_id:
                name = self._events.get(_int(value), "")
            elif field == XEvent.offset_ps:
                offset = _int(value)
            elif field == XEvent.duration_ps:
                duration = _int(value)
            elif field == XEvent.stats:
                self._stat(as_bytes(value), stats)
        return Event(name, line_ns + offset // 1000, line_ns + (offset + duration) // 1000, stats)

    def _stat(self, stat: bytes, stats: dict[str, Stat]) -> None:
        name = ""
        parsed: Stat | None = None
        for field, value in fields(stat):
            if field == XStat.metadata_id:
                name = self._stats.get(_int(value), "")
            elif field == XStat.str_value:
                parsed = _text(value)
            elif field == XStat.ref_value:
                parsed = self._stats.get(_int(value), "")
            elif field in (XStat.uint64_value, XStat.int64_value):
                parsed = _int(value)
        if parsed is not None:
            stats[name] = parsed


def _messages(message: bytes, wanted: int) -> Iterator[bytes]:
    return (as_bytes(value) for field, value in fields(message) if field == wanted)


def _int(value: int | bytes) -> int:
    return as_signed(as_int(value))


def _text(value: int | bytes) -> str:
    return as_bytes(value).decode("utf-8", "replace")
