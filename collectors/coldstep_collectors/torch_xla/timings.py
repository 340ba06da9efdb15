"""Times that only torch_xla's metrics have, by the trace's clock, and drawn where they went."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial

from coldstep import clock
from coldstep.clock import now
from coldstep.collector import Sink
from coldstep.events import Args, Begin, End, Within, emit_whole
from coldstep.recording.device_tracks import union
from coldstep_collectors.torch_xla._private.hooks import Samples
from coldstep_collectors.torch_xla.executions import Executions

TRACK = "torch_xla"
TRACE, LOWER, COMPILE = "torch_xla.trace", "torch_xla.lower", "torch_xla.compile"
_SHORT_NS = 50_000  # shorter transfers are not drawn


class Timings:
    """The metrics, each of which `read` gives by its name, since this was made."""

    def __init__(self, sink: Sink, read: Callable[[str], Samples]) -> None:
        self._sink = sink
        self.compiles, self.eager = read("CompileTime"), read("EagerOpCompileTime")
        self._device_waits, self._uploads = read("DeviceLockWait"), read("TransferToDeviceTime")
        self._undrawn: deque[tuple[int, int]] = deque()  # uploads: stamps of one thread must rise
        self._tracing = read("LazyTracing")
        self.executions = Executions(read("ExecuteTime"), offset_ns)
        self.forget_tracing()

    def forget_tracing(self) -> None:
        """Leave out the time that was spent until now."""
        self._tracing.spent_ns()

    def new(self, samples: Samples, since: int, until: int) -> list[tuple[int, int]]:
        """The new samples of a metric between two moments, by the trace's clock."""
        new = samples.new()
        offset = offset_ns() if new else 0
        spans = [(max(start + offset, since), min(end + offset, until)) for start, end in new]
        return [(start, end) for start, end in spans if start < end]

    def draw_tracing(self, ns: int, synced: int, is_known: bool) -> None:
        """The time that went into recording operations: as one stretch before `ns`, since it is known in sum only, and
        the uploads since the last sync until then. The sum `is_known` where it is not of many steps."""
        new = self.new(self._uploads, 0, now())
        self._undrawn += [(start, end) for start, end in new if start >= synced and end - start >= _SHORT_NS]
        spent = self._tracing.spent_ns()
        spent = spent if is_known else 0
        self.draw_uploads(ns - spent)
        begin = Begin(ns - spent, "lazy tracing", TRACK, TRACE)
        if spent:
            self._sink.emit(begin)
        self.draw_uploads(ns)
        if spent:
            self._sink.emit(End(ns, begin))

    def draw_uploads(self, until: int) -> None:
        while self._undrawn and self._undrawn[0][1] <= until:
            start, end = self._undrawn.popleft()
            emit_whole(self._sink.emit, Begin(start, "upload", TRACK, "transfer"), end)

    def draw_rest(self, at: int, ns: int) -> None:
        """What a sync did beside compiling: wait for the device, and all else (collect, hash, hand on)."""
        rest = Begin(at, "collect and schedule", TRACK, LOWER)
        self._sink.emit(rest)
        self._sink.emit(Within(at, partial(self._waits, self.new(self._device_waits, at, ns), at, ns)))
        self._sink.emit(End(ns, rest))

    def _waits(self, waits: list[tuple[int, int]], at: int, ns: int) -> list[Begin | End]:
        """A sync's waits for the device: for the step before, and on a CPU often for what it has handed on itself."""
        events: list[Begin | End] = []
        for start, end in union([*waits, *self.executions.within(at, ns)]):
            if end - start >= _SHORT_NS:
                begin = Begin(start, "wait for the device", "execute", "execute")
                events += begin, End(end, begin)
        return events


def segment(sink: Sink, ns: int, phases: Iterable[tuple[str, int, int]], args: Args, ending: Args) -> str:
    """A compile's one segment, known when it is over."""
    emit, compile_id = sink.emit, sink.new_compile()
    outer = Begin(ns, args["function"], TRACK, None, compile_id, args)
    emit(outer)
    for phase, start, end in phases:
        emit_whole(emit, Begin(start, phase, "execute" if phase == "execute" else TRACK, phase), end)
        ns = end
    emit(End(ns, outer, ending))
    return compile_id


def offset_ns() -> int:
    at = clock.snapshot()
    return at.monotonic_ns - at.realtime_ns
