"""Writes the packets of a step that only does what the one before did: their bytes are made once, and then patched.

That is a step on the trace's own thread in which nothing happened, or nothing but a `wait`. Whether a step is one is
seen in the events that the drain has taken, before the first of them is handled.
"""

from __future__ import annotations

from collections.abc import Sequence

from coldstep._util.slotted import slotted
from coldstep.events import Begin, End, Event, StepBegin, StepEnd
from coldstep.pftrace import proto
from coldstep.pftrace.layout import step_name

_KEY = proto.varint(proto.TracePacket.timestamp << 3 | proto.VARINT)
_MAX_KINDS = 64  # of steps


class Pattern:
    """The packets of such a step, and where in them its times and its ordinal stand."""

    def __init__(self, parts: list[bytes], stamps: list[tuple[int, int]], ordinal: int) -> None:
        self._parts = parts
        self._stamps = stamps
        self._ordinal = ordinal

    def packets(self, times: Sequence[int], n: int) -> bytes:
        """Those of another step."""
        parts, stamps = self._parts, [proto.timestamp(ns) for ns in times]
        for at, which in self._stamps:
            parts[at] = stamps[which]
        parts[self._ordinal] = b"%d" % n
        return b"".join(parts)


def _pattern(packets: Sequence[bytes], times: Sequence[int], title: str, n: int) -> Pattern | None:
    """What these packets, of a step with those times, are for others; None where they hold anything else."""
    known = {proto.timestamp(ns): which for which, ns in enumerate(times)}
    parts, stamps = [b""], []
    for packet in packets:
        start = packet.find(_KEY, 2, 4) + 1  # behind the packet's own key and length
        which = known.get(packet[start : start + proto.TIMESTAMP_SIZE])
        if not start or which is None:
            return None
        parts[-1] += packet[:start]
        stamps.append((len(parts), which))
        parts += [b"", packet[start + proto.TIMESTAMP_SIZE :]]
    whole = title.encode("utf-8", "replace")
    at = next((at for at, part in enumerate(parts) if whole in part), None)
    if at is None or len(known) != len(times):
        return None
    before, _, behind = parts[at].rpartition(whole)
    name, digits, word = whole.rsplit(b" ", 2)
    if digits != b"%d" % n:
        return None
    parts[at : at + 1] = [before + name + b" ", digits, b" " + word + behind]
    return Pattern(parts, [(each + 2 * (each > at), which) for each, which in stamps], at + 1)


@slotted
class PlainStep:
    """A step in which nothing happened, or nothing but a `wait`."""

    name: str
    digits: int
    """How many its ordinal has."""
    complete: bool
    python_dispatches: int
    times: list[int]
    """When it began, waited, and ended."""

    @property
    def events(self) -> int:
        """How many events it is."""
        return len(self.times)


class Patterns:
    """The packets of steps that have been written."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, bool, int, int], Pattern] = {}

    def get(self, step: PlainStep) -> Pattern | None:
        """Those of a step of that kind; None where they are not known."""
        return self._known.get(_kind(step))

    def learn(self, step: PlainStep, packets: Sequence[bytes], n: int, word: str) -> None:
        """A step was written in the ordinary way, as these packets."""
        pattern = _pattern(packets, step.times, step_name(step.name, n, word), n)
        if pattern is not None and len(self._known) < _MAX_KINDS:
            self._known[_kind(step)] = pattern

    def forget(self) -> None:
        """From now on packets of such steps may hold something else."""
        self._known.clear()


def _kind(step: PlainStep) -> tuple[str, int, bool, int, int]:
    return step.name, step.digits, step.complete, step.python_dispatches, len(step.times)


def plain_step(events: Sequence[tuple[int, Event, object]], at: int) -> PlainStep | None:
    """The step that these events are, from there on; None where it is not whole, or not plain."""
    ns, begin, thread = events[at]
    if type(begin) is not StepBegin or begin.inferred or len(events) < at + 2:
        return None
    times, at = [ns], at + 1
    ns, event, other = events[at]
    if type(event) is Begin and len(events) >= at + 3:
        later, ended, third = events[at + 1]
        waits = event.name == "wait" and event.phase == "execute" and not event.args and not event.compile
        if not waits or type(ended) is not End or ended.begin is not event or ended.args or third is not other:
            return None
        times += [ns, later]
        at += 2
        if other is not thread or not times[0] < ns < later:
            return None
        ns, event, other = events[at]
    if type(event) is not StepEnd or event.begin is not begin or other is not thread or ns <= times[-1]:
        return None
    times.append(ns)
    return PlainStep(begin.name, len(str(begin.n)), event.complete, event.python_dispatches, times)
