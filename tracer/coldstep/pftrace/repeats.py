"""Steps whose packets are those of the step before but for their times and ordinal: found, and read, many at once.

A steady step is some dozen packets, and a long run has millions of them. To decode each takes far longer
than to see that the same bytes come again, which is done here on whole stretches of the file, as one large number.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from struct import Struct

from coldstep._util.slotted import slotted
from coldstep.pftrace import proto
from coldstep.pftrace.layout import STEP, parse_step, step_name
from coldstep.pftrace.records import EventRow

_STRETCHES = (4, 32, 256)  # steps that are compared at a time: more, the longer they have been alike
_MOST = _STRETCHES[-1]
_MAX_RECORD_BYTES = 1 << 14
_KEY = proto.varint(proto.TracePacket.timestamp << 3 | proto.VARINT)
_PADDED = b"\x80" * proto.TIMESTAMP_SIZE  # the bits of a time stamp that tell where it ends


class Template:
    """The packets of one step, in their order, and what in them may differ from step to step."""

    def __init__(self, record: bytes, packets: Sequence[int], events: list[EventRow], ordinal: slice) -> None:
        """`packets`: where in the record each begins, with its time stamp; `ordinal`: where the step's stands."""
        self.events = events
        """What they say; exactly one begins the step's slice."""
        columns: dict[int, int] = {}
        self.which = [columns.setdefault(event.ns, len(columns)) for event in events]
        """Which of the step's times, which are counted as they come, is each one's own."""
        self._size = len(record)
        width = ordinal.stop - ordinal.start
        mask = bytearray(b"\xff" * self._size)
        mask[ordinal] = bytes(width)
        self._ordinals = Struct(f"{ordinal.start}x{width}s{self._size - ordinal.stop}x")
        layout, at = "<", 0
        for packet in packets:
            start, end = packet + len(_KEY), packet + len(_KEY) + proto.TIMESTAMP_SIZE
            mask[start:end] = _PADDED
            layout += f"{start - at}xQ"
            at = end
        self._stamps = Struct(f"{layout}{self._size - at}x")
        self._mask = int.from_bytes(bytes(mask) * _MOST, "big")
        self._fixed = int.from_bytes(record * _MOST, "big") & self._mask

    def fits(self, content: bytes, start: int, end: int) -> bool:
        """Whether what stands there is such a step, and no more."""
        return end - start == self._size and self._alike(content, start, 1) == 1

    def more(self, content: bytes, at: int, first: int) -> tuple[Repeats | None, int]:
        """The steps that stand there, one behind the other and with ordinals from `first` on; and how many bytes they
        are. None where there is none."""
        count = self._count(content, at)
        if not count:
            return None, 0
        record = content[at : at + count * self._size]
        for number, (digits,) in enumerate(self._ordinals.iter_unpack(record)):
            if digits != b"%d" % (first + number):
                count = number
                break
        flat = array("Q", chain.from_iterable(self._stamps.iter_unpack(record[: count * self._size])))
        columns: list[array[int]] = []
        for number, which in enumerate(self.which):
            column = flat[number :: len(self.which)]
            if which == len(columns):
                columns.append(column)
            elif column != (known := columns[which]):
                count = min(count, next(n for n, (a, b) in enumerate(zip(column, known, strict=True)) if a != b))
        if not count:
            return None, 0
        return Repeats(self, first, [_decoded(column[:count]) for column in columns]), count * self._size

    def _count(self, content: bytes, at: int) -> int:
        """How many of them stand there."""
        count = 0
        for steps in chain(_STRETCHES, repeat(_MOST)):
            tried = min(steps, (len(content) - at) // self._size)
            alike = self._alike(content, at, tried)
            count += alike
            at += tried * self._size
            if alike < tried or not tried:
                break
        return count

    def _alike(self, content: bytes, at: int, steps: int) -> int:
        """How many of so many that stand there are alike, up to the first that is not."""
        one, rest = 8 * self._size, _MOST - steps
        number = int.from_bytes(content[at : at + steps * self._size], "big")
        differs = number & (self._mask >> rest * one) ^ (self._fixed >> rest * one)
        return steps - -(-differs.bit_length() // one)  # the first byte is the highest


@slotted
class Repeats:
    """Steps that were like a template."""

    template: Template
    first: int
    """The ordinal of the first."""
    columns: list[array[int]]
    """Their times, as `Template.which` counts them."""

    @property
    def count(self) -> int:
        """How many steps they are."""
        return len(self.columns[0])

    def behind(self, count: int) -> Repeats:
        """The steps behind the first so many."""
        return Repeats(self.template, self.first + count, [column[count:] for column in self.columns])

    def rows(self, count: int) -> Iterator[EventRow]:
        """The packets of the first so many, as if each had been read by itself."""
        for at in range(count):
            for event, which in zip(self.template.events, self.template.which, strict=True):
                name = event.name
                if event.category == STEP and event.kind == proto.SLICE_BEGIN:
                    kind, _ = parse_step(name)
                    name = step_name(kind, self.first + at, name.rpartition(" ")[2])
                ns = self.columns[which][at]
                yield EventRow(event.kind, ns, event.track, name, event.category, dict(event.args))


def template(record: bytes, packets: Sequence[int], events: list[EventRow], title: str) -> Template | None:
    """What the packets of a step are a template for, or None where they are none. `title`: the name of its slice."""
    whole, digits = title.encode("utf-8", "replace"), title.rsplit(" ", 2)[-2].encode("utf-8", "replace")
    at = record.rfind(whole)
    stamped = all(record.startswith(_KEY, packet) for packet in packets)
    if len(record) > _MAX_RECORD_BYTES or at < 0 or not stamped or not digits.isdigit():
        return None
    end = at + len(whole.rpartition(b" ")[0])
    return Template(record, packets, events, slice(end - len(digits), end))


def _decoded(raw: array[int]) -> array[int]:
    """Time stamps of eight bytes each, all at once: as `proto.read_timestamp` has each."""
    size = len(raw)
    n = int.from_bytes(raw.tobytes(), "little")
    for stays, moves, by in _GATHERED:
        n = (n & _times(stays, size)) | (n & _times(moves, size)) >> by
    values = array("q")
    values.frombytes(n.to_bytes(proto.TIMESTAMP_SIZE * size, "little"))
    return values


def _times(mask: int, size: int) -> int:
    return int.from_bytes(mask.to_bytes(proto.TIMESTAMP_SIZE, "little") * size, "little")


_GATHERED = (
    (0x7F7F7F7F7F7F7F7F, 0, 0),
    (0x007F007F007F007F, 0x7F007F007F007F00, 1),
    (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
    (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
)
"""The bits of a stamp that stay, those that move down, and by how many, one step after the other."""
