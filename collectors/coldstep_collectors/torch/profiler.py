"""Shows what PyTorch runs: operators, kernels, copies and the calls that launch them, from its own profiler.

What a GPU adds was held against traces that others recorded on NVIDIA's and AMD's, but was never met.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from itertools import count
from typing import Any

from coldstep._util.expressions import expression
from coldstep._util.slotted import slotted
from coldstep.clock import Mapping
from coldstep.collector import DeviceSink
from coldstep.events import Args, DeviceSlice
from coldstep.recording.device_tracks import union
from coldstep_collectors.profiler_session import MARK, Lines, Recording, thread_name
from coldstep_collectors.torch._private.kineto import Kineto as Profiler

_NO_GPUS = (
    "what GPUs run, and with it the waits in NCCL's collectives (with CUDA before 12.6 PyTorch's profiler can crash a "
    "program that uses CUDA graphs)"
)
_UNSEEN = "operators and kernels (this version of PyTorch has another profiler)"

_DEVICE = {"kernel": "kernel", "gpu_memcpy": "copy", "gpu_memset": "copy", "gpu_user_annotation": "annotation"}
_HOST = {"cpu_op": "operator", "user_annotation": "annotation"}
_CALLS = ("_runtime", "_driver")  # cuda_runtime, cuda_driver, xpu_runtime …
_POLLS = ("EventQuery", "StreamQuery")  # calls that only ask: NCCL's and the allocator's can be most of all calls
# a span of the compiler's is accompanied by one with what it was called with
# PyTorch 2.13: "backend_compile_data: fn_name=OutputGraph.call_user_compiler, compile_id=0/0"
_ARGUMENTS = expression(r"(.+)_data(?:: .*)?", re.DOTALL)
# PyTorch 2.9, 2.13: "Torch-Compiled Region: 0/0"
_REGION = expression(r"(Torch-Compiled Region): (\d+/\d+)")
# PyTorch 2.13: "## Call CompiledFxGraph fq4v3wd6 ##"
_GRAPH = expression(r"## (Call CompiledFxGraph) (\w+) ##")
# PyTorch 2.13: "aten::sin"
_OPERATOR = expression(r"(?!autograd::|torch::)[A-Za-z_]\w*::\w+")
_FORWARD, _BACKWARD = "CompiledFunction", "CompiledFunctionBackward"
_SESSION_BITS = 160  # of an arrow's number within a session: in the next, CUDA may count from 1 again


class Kineto:
    """The collector `kineto`."""

    name = "kineto"
    records_devices = True

    def start(self, sink: DeviceSink) -> None:
        """Attach when torch is there."""
        self._sink = sink
        self._recording: Recording[list[Any]] | None = None
        sink.when_imported("torch", self._attach)

    def stop(self) -> list[str]:
        """End the session, and hand over what it saw."""
        if self._recording is not None:
            lines = Lines()
            for recorded, session in zip(self._recording.finish(), count(1), strict=False):
                saw = _Saw(recorded.saw)
                if (mapping := recorded.mapping(saw.marks)) is None:
                    lines.dropped += len(recorded.saw)
                    continue
                lines.clock_bound_ns = max(lines.clock_bound_ns, mapping.bound_ns)
                saw.add_to(lines, mapping, session << _SESSION_BITS)
            lines.dropped += self._recording.dropped
            if lines.clock_bound_ns:
                self._sink.emit(lines.trace(self.name))
        return []

    def _attach(self, torch: Any) -> None:
        profiler = Profiler()
        missing = [] if profiler.there else [_UNSEEN]
        if not profiler.can_see_gpus:
            missing.append(_NO_GPUS)
        if profiler.there:
            self._recording = Recording(self.name, "torch.profiler", self._sink, profiler)
        self._sink.state(self.name, "partial" if missing else "attached", getattr(torch, "__version__", None), missing)


@slotted
class _Event:
    """One event of the profiler's, its times on the profiler's clock."""

    name: str
    activity: str
    start_ns: int
    end_ns: int
    theirs: Any
    framework_id: str | None = None  # of the compile that made the compiled region it is, or is the backward of
    flow: int = 0  # from a compiled forward to its backward


class _Saw:
    """What one session saw, by thread and stream."""

    def __init__(self, events: list[Any]) -> None:
        self.marks: list[tuple[int, int]] = []
        self._threads: dict[int, list[_Event]] = defaultdict(list)
        self._streams: dict[tuple[str, int, int], list[_Event]] = defaultdict(list)
        self._calls: dict[int, list[_Event]] = defaultdict(list)
        self._launched = False
        accompanied: set[str] = set()
        for theirs in sorted(events, key=lambda theirs: theirs.start_ns()):
            activity, name = theirs.activity_type(), theirs.name()
            start = theirs.start_ns()
            event = _Event(name, activity, start, start + theirs.duration_ns(), theirs)
            if activity in _DEVICE:
                device = theirs.device_type().name
                self._streams[device, theirs.device_index(), theirs.device_resource_id()].append(event)
            elif activity.endswith(_CALLS):
                self._launched |= "Launch" in name
                if not name.endswith(_POLLS):
                    self._calls[theirs.device_resource_id()].append(event)
            elif name == MARK:
                self.marks.append((event.start_ns, event.end_ns))
            elif activity in _HOST and not theirs.is_hidden_event():
                self._threads[theirs.device_resource_id()].append(event)
                if activity == "user_annotation" and (match := _ARGUMENTS.fullmatch(name)):
                    accompanied.add(match[1])
        # each span of the compiler's is here a second time: its own tracks have them
        self._compiler = accompanied & {
            event.name for thread in self._threads.values() for event in thread if event.activity == "cpu_op"
        }

    def add_to(self, lines: Lines, mapping: Mapping, flows: int) -> None:
        """Give all of it to `lines`. `flows` separates one session's numbers of arrows from another's."""
        shown = {thread: list(self._outside_compiles(events)) for thread, events in self._threads.items()}
        self._find_regions(shown)
        executed: list[_Event] = []
        slice_of = partial(_slice, mapping=mapping, flows=flows)

        for thread, events in shown.items():
            lines.add("device", f"operators: {thread_name(thread)}", thread, events, slice_of)
            if not (self._streams or self._launched):  # else it only launches what runs elsewhere
                executed += [event for event in events if _executes(event.name)]
        for thread, events in self._calls.items():
            lines.add("device", f"calls: {thread_name(thread)}", thread, events, slice_of)
        for stream, events in self._streams.items():
            lines.add("device", "{}:{} stream {}".format(*stream), stream, events, slice_of)
            executed += [event for event in events if _DEVICE[event.activity] != "annotation"]
        spans = union((event.start_ns, event.end_ns) for event in executed)
        lines.executed.extend((mapping(start), mapping(end)) for start, end in spans)

    def _outside_compiles(self, events: list[_Event]) -> Iterator[_Event]:
        """A thread's events in order, without what the compiler ran while it traced: that was on no real tensor."""
        until = 0
        for event in sorted(events, key=lambda event: (event.start_ns, -event.end_ns)):
            if event.start_ns < until or event.name.endswith(" (dynamo_timed)"):
                continue
            if event.name in self._compiler:
                until = event.end_ns
            elif not (event.activity == "user_annotation" and _accompanies(event.name, self._compiler)):
                yield event

    def _find_regions(self, threads: dict[int, list[_Event]]) -> None:
        """Tie compiled regions to their compiles; a backward to the region whose forward has its sequence number."""
        forwards: dict[tuple[int, int], str] = {}
        for events in threads.values():
            region, until = None, 0
            for event in events:
                if match := _REGION.match(event.name):
                    region, until = match[2], event.end_ns
                    event.framework_id = region
                elif event.name == _FORWARD and region is not None and event.start_ns < until:
                    thread, number = event.theirs.start_thread_id(), event.theirs.sequence_nr()
                    forwards[thread, number] = region
                    event.flow = _flow(thread, number)
        for events in threads.values():
            for event in events:
                if event.name == _BACKWARD:
                    key = event.theirs.fwd_thread_id(), event.theirs.sequence_nr()
                    event.framework_id = forwards.get(key)
                    event.flow = _flow(*key)


def _flow(thread: int, number: int) -> int:
    """The number of the arrow from a forward to its backward; CUDA's own numbers have 32 bits."""
    return (thread + 1) << 96 | number << 32


def _accompanies(name: str, compiler: set[str]) -> bool:
    match = _ARGUMENTS.fullmatch(name)
    return match is not None and match[1] in compiler


def _executes(name: str) -> bool:
    """Whether an operator's time is that of kernels: not that of what only calls others."""
    return _OPERATOR.match(name) is not None or _GRAPH.match(name) is not None


def _slice(event: _Event, mapping: Mapping, flows: int) -> DeviceSlice:
    name = event.name
    args: Args | None = None
    if match := _REGION.match(name):
        name = match[1]
    elif match := _GRAPH.match(name):
        name, args = match[1], {"graph": match[2]}
    if event.framework_id is not None:
        args = (args or {}) | {"framework_id": event.framework_id}
    category = _DEVICE.get(event.activity) or _HOST.get(event.activity) or "runtime"
    launched = category in ("kernel", "copy", "runtime")
    flow = int(event.theirs.correlation_id()) if launched else event.flow
    return DeviceSlice(mapping(event.start_ns), mapping(event.end_ns), name, category, args, flow and flows + flow)
