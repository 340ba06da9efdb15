"""Draws what the frameworks' profilers saw: a track per thread or stream, each piece tied to the compile that made it.

And it gives the ledger the times at which the device ran. All of it comes when the traced block has ended.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from coldstep._util.slotted import field, slotted
from coldstep.events import Args, DeviceLine, DeviceSlice, DeviceTrace
from coldstep.pftrace.layout import Track
from coldstep.pftrace.writer import Writer
from coldstep.vocabulary import UNATTRIBUTED, Vocabulary

EXECUTE = "execute"
_OF_A_DEVICE = ("kernel", "copy")
_MAX_PIECES = 64  # of a stretch of unattributed time: thousands of operators are not worth thousands of slices


@slotted
class _Lane:
    """A track whose slices nest; until when each of the open ones lasts, outermost first."""

    track: int
    open: list[int] = field(default_factory=list)


class Ties:
    """Which compile made what a profiler saw: by the framework's id of it, or by the time that XLA took over it."""

    def __init__(self) -> None:
        self._framework_ids: dict[str, list[tuple[int, str]]] = {}
        self._xla: list[tuple[int, int, str, str]] = []

    def began(self, ns: int, compile_id: str, args: Args) -> None:
        """A segment of a compile began, with these arguments."""
        if framework_id := args.get("framework_id"):
            self._framework_ids.setdefault(framework_id, []).append((ns, compile_id))

    def xla_worked(self, start: int, end: int, compile_id: str, function: str) -> None:
        """XLA compiled `function` for that compile."""
        self._xla.append((start, end, compile_id, function))

    def find(self, piece: DeviceSlice, kind: str, bound_ns: int) -> str | None:
        """The compile of a slice on a line of that kind; None where it is not known, or could be several."""
        args = piece.args or {}
        if framework_id := args.get("framework_id"):
            # a reset starts PyTorch's ids again: the latest that had begun
            known = self._framework_ids.get(framework_id, [])
            at = bisect_right(known, piece.ns + bound_ns, key=lambda row: row[0])
            return known[at - 1][1] if at else None
        if kind != "xla":
            return None
        # its middle: the ends may lie beside those of the compile by what both clocks can be off
        middle = (piece.ns + piece.end_ns) // 2
        around = [(compile_id, function) for start, end, compile_id, function in self._xla if start <= middle <= end]
        if len(around) > 1:  # threads that compile at the same time
            around = [row for row in around if f"jit_{row[1]}" == args.get("module")]
        return around[0][0] if len(around) == 1 else None


class DeviceTracks:
    """Writes each `DeviceTrace` below the root track."""

    def __init__(
        self, writer: Writer, new_id: Callable[[], int], root: int, ties: Ties, vocabulary: Vocabulary
    ) -> None:
        self._writer, self._new_id, self._root = writer, new_id, root
        self._ties, self._vocabulary = ties, vocabulary
        self._groups: dict[str, int] = {}
        self._lines = 0

    def write(self, trace: DeviceTrace) -> None:
        """Draw all lines of `trace`."""
        arrows = self._arrows(trace)
        for line in trace.lines:
            self._write_line(line, trace.clock_bound_ns, arrows)

    def _arrows(self, trace: DeviceTrace) -> dict[int, int]:
        """By slice (its `id()`), the number of the arrow that begins or ends there.

        One launch of a CUDA graph runs many kernels: the arrow leads to the first. Where the launch was not seen,
        there is none, nor from one call to another.
        """
        joined = defaultdict[int, list[DeviceSlice]](list)
        for piece in chain.from_iterable(line.slices for line in trace.lines):
            if piece.flow:
                joined[piece.flow].append(piece)
        arrows: dict[int, int] = {}
        for pieces in joined.values():
            launch, *others = sorted(pieces, key=lambda piece: piece.ns)
            if others and launch.category not in _OF_A_DEVICE:
                first = min(others, key=lambda piece: piece.category not in _OF_A_DEVICE)
                if first.category != "runtime":
                    arrows[id(launch)] = arrows[id(first)] = self._new_id()
        return arrows

    def _write_line(self, line: DeviceLine, bound_ns: int, arrows: dict[int, int]) -> None:
        writer = self._writer
        self._lines += 1
        lanes: list[_Lane] = []
        for piece in sorted(line.slices, key=lambda piece: (piece.ns, -piece.end_ns)):
            for lane in lanes:
                while lane.open and lane.open[-1] <= piece.ns:
                    writer.end(lane.open.pop(), lane.track)
                if not lane.open or piece.end_ns <= lane.open[-1]:
                    break
            else:
                lane = _Lane(self._track(line))
                lanes.append(lane)
            args = piece.args
            if not lane.open or args:
                compile_id = self._ties.find(piece, line.kind, bound_ns)
                args = (args or {}) | {"compile": compile_id} if compile_id else args
            flow = arrows.get(id(piece))
            writer.begin(piece.ns, lane.track, piece.name, piece.category, args, (flow,) if flow else ())
            lane.open.append(max(piece.ns, piece.end_ns))
        for lane in lanes:
            while lane.open:
                writer.end(lane.open.pop(), lane.track)

    def _track(self, line: DeviceLine) -> int:
        """A new track for the line; where its slices overlap, it has several of one name."""
        if (group := self._groups.get(line.kind)) is None:
            group = self._groups[line.kind] = self._new_id()
            rank = 2 * self._vocabulary.rank(line.kind)
            name = self._vocabulary.tracks[line.kind].words
            self._writer.track(group, name, parent=self._root, rank=rank, ordered=True)
        uuid = self._new_id()
        about = Track(line.kind, self._lines, line.name).about()
        self._writer.track(uuid, line.name, parent=group, rank=self._lines, about=about)
        return uuid


class Held:
    """Unattributed time while device traces are recorded: kept back until they show where in it the device ran."""

    def __init__(self, write: Callable[[int, int, str], None]) -> None:
        self._write = write
        self._stretches: list[tuple[int, int]] = []
        self._executed: list[tuple[int, int]] = []
        self._since: int | None = None
        self.open = False

    def goes_on(self, ns: int, phase: str) -> bool:
        """Another phase begins: whether it is held back, and not to be written."""
        self.ends(ns)
        if self.open and phase == UNATTRIBUTED:
            self._since = ns
        return self._since is not None

    def ends(self, ns: int) -> None:
        """The stretch that is held back ends here."""
        if self._since is not None and ns > self._since:
            self._stretches.append((self._since, ns))
        self._since = None

    def executed(self, spans: Iterable[tuple[int, int]]) -> None:
        """The device ran then."""
        self._executed.extend(spans)

    def release(self) -> None:
        """Write it all, each nanosecond as `execute` or unattributed."""
        spans = union(self._executed)
        first = 0
        for start, end in self._stretches:
            while first < len(spans) and spans[first][1] <= start:
                first += 1
            after = first
            while after < len(spans) and spans[after][0] < end:
                after += 1
            executed = [(max(start, since), min(until, end)) for since, until in spans[first:after]]
            for since, until in executed if len(executed) <= _MAX_PIECES else _coarse(executed):
                if since > start:
                    self._write(start, since, UNATTRIBUTED)
                if until > since:
                    self._write(since, until, EXECUTE)
                start = until
            if start < end:
                self._write(start, end, UNATTRIBUTED)


def _coarse(spans: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """As much time as that of `spans`, in at most `_MAX_PIECES` pieces: each stands where its part begins."""
    size = -(-len(spans) // _MAX_PIECES)
    for at in range(0, len(spans), size):
        part = spans[at : at + size]
        yield part[0][0], part[0][0] + sum(until - since for since, until in part)


def union(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same time, in order and without overlap; spans of no length are left out."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        elif end > start:
            joined.append((start, end))
    return joined
