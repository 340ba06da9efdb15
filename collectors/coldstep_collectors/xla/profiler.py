"""Shows what XLA does inside a compile, and what runs on its devices: from XLA's own profiler, kept in memory.

The planes of CPUs and of an NVIDIA GPU were met; those of TPUs are read as XLA's sources write them, and as a TPU's
recorded by others names things.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from itertools import count
from typing import Any

from coldstep._util.expressions import expression
from coldstep._util.slotted import slotted
from coldstep.clock import Mapping
from coldstep.collector import DeviceSink
from coldstep.events import DeviceSlice
from coldstep.recording.device_tracks import union
from coldstep.vocabulary import STACKS
from coldstep_collectors.jax._private import names as jax_names
from coldstep_collectors.profiler_session import MARK, Lines, Recording, thread_name
from coldstep_collectors.xla import xplane
from coldstep_collectors.xla._private import session
from coldstep_collectors.xla.xplane import Event, Line

_IMPORTERS = [stack.packages[0] for stack in STACKS if "jax" in stack.imports]
_MAX_EVENTS = 100_000  # read of one session

_UNSEEN = "what XLA does inside, and on its devices ({})"
# XLA: "tf_xla-cpu-codegen/4964726198114996941"
_POOL = expression(r"(?:tf_)?(.*?)(?:/-?\d+)?", re.DOTALL)
# a thread that calls CUDA
# XLA: "Host Threads/4711"
_CALLER = expression(r"Host Threads/(\d+)")

# JAX 0.10: "PjRtCpuClient::Compile"
# torch_xla 2.9: "CpuCompiler::RunBackend"
_DRIVERS = expression(r"\w*(?:Client|Compiler)::(?:Compile|RunBackend|RunHloPasses)\w*")
_WAITS = ("Codegen", "JitCompiler::Compile")  # for other threads, which generate the code
# JAX 0.10: "FusionCompiler::Compile"
# torch_xla 2.9: "ThunkEmitter::EmitEntryComputation"
_CODEGEN = expression(r"TaskDispatcher::|ThunkEmitter::|FusionCompiler::|SplitModule|CloneAsThreadSafeModule|"
                      r"[Cc]odegen|LLVM|[Ll]lvm|P[Tt][Xx]|Cubin|Emit")  # fmt: skip
_LINK = expression(r"\b[Ll]ink")
_MANAGERS = ("FusionCompiler::Compile", "mlir::detail::OpToOpPassAdaptor")

_ARGUMENTS = {"module": "module", "hlo_module": "program"}

# "/device:CUSTOM:…" is whatever a library wants to show
# XLA: "/device:GPU:0"
_DEVICE = expression(r"/device:((GPU|TPU):.*)")
# in each session others
# XLA: "Stream #7(MemcpyH2D,Compute)"
_KINDS = expression(r"\(.*\)$")
_PROGRAMS = ("XLA Modules", "Sparse Core Modules")  # a TPU's lines
_OPERATIONS = ("XLA Ops", "Async XLA Ops", "Sparse Core Ops")
# XLA: "MemcpyD2H"
# XLA: "async-copy"
_COPY = expression(r"mem(?:cpy|set)|async-copy|copy-(?:start|done)", re.IGNORECASE)
# XLA: "jit_train(9646411105960254074)"
# XLA: "cuGraphLaunch (CudaGraph:3)"
_NUMBER = expression(r"\(\d+\)$| \(CudaGraph:\d+\)$|(?<=^CudaGraphExec):\d+$")

_NO_GRAPHS = "WARNING: CommandBuffer disabled when profiling"  # so XLA marks what it runs without its CUDA graph
_WITHOUT = (
    "XLA runs no command buffers (CUDA graphs) while its profiler is on: in the steps of which device traces were "
    'recorded each kernel was launched by itself, and only later ones record. With device="off" all may.'
)

# JAX 0.10: "CommonPjRtLoadedExecutable::Execute"
# XLA: "PjRtCpuExecutable::ExecuteHelper"
_EXECUTES = expression(r"Execut")
_HANDED_OVER, _TAKEN_OVER = "ThreadpoolListener::Record", "ThreadpoolListener::StartRegion"


class XSpace:
    """The collector `xspace`."""

    name = "xspace"
    records_devices = True

    def start(self, sink: DeviceSink) -> None:
        """Attach when JAX is there, and when torch_xla is: each has an XLA of its own."""
        self._sink = sink
        self._recordings: list[Recording[bytes]] = []
        self._versions: list[str] = []
        self._missing: list[str] = []
        sink.when_imported("jax", self._wait_for_jax)
        sink.when_imported(
            "torch_xla",
            lambda torch_xla: self._attach(torch_xla, "torch_xla.debug.profiler", session.of_torch_xla(torch_xla)),
        )

    def stop(self) -> list[str]:
        """End the sessions, and hand over what they saw."""
        lines = Lines()
        sessions = count(1)
        for recording in self._recordings:
            for recorded, number in zip(recording.finish(), sessions, strict=False):
                read = list(xplane.lines(recorded.saw, _MAX_EVENTS, (MARK, _NO_GRAPHS)))
                marks = [(e.start_ns, e.end_ns) for line in read for e in line.events if e.name == MARK]
                if any(event.name == _NO_GRAPHS for line in read for event in line.events):
                    self._sink.note(_WITHOUT)
                if (mapping := recorded.mapping(marks)) is None:
                    lines.dropped += xplane.count(recorded.saw)
                    continue
                lines.clock_bound_ns = max(lines.clock_bound_ns, mapping.bound_ns)
                for line in read:
                    lines.dropped += line.dropped
                    _add(lines, line, mapping, number << 48)
            lines.dropped += recording.dropped
        if lines.clock_bound_ns:
            self._sink.emit(lines.trace(self.name))
        return []

    def _wait_for_jax(self, jax: Any) -> None:
        """Attach to JAX at once; beside a framework that imports it and never uses it, once the program does."""
        waiting = [jax]

        def look(_is_step: bool) -> None:
            if waiting and (not any(name in sys.modules for name in _IMPORTERS) or _is_used()):
                self._attach(waiting.pop(), "jax.profiler", session.of_jax(jax))

        look(False)
        if waiting:
            self._sink.on_mark(self._sink.guarded(self.name, look))

    def _attach(self, framework: Any, public: str, copy: session.Copy | str) -> None:
        if isinstance(copy, str):
            self._missing.append(_UNSEEN.format(copy))
        else:
            self._recordings.append(Recording(self.name, public, self._sink, session.XlaProfiler(copy)))
        self._versions.append(str(getattr(framework, "__version__", "")))
        state = "partial" if self._missing else "attached"
        self._sink.state(self.name, state, ", ".join(self._versions), self._missing)


def _is_used() -> bool:
    """Whether JAX has started a backend; also where that cannot be seen."""
    started = jax_names.BACKENDS.find()
    return started is None or bool(started())


def _add(lines: Lines, line: Line, mapping: Mapping, flows: int) -> None:
    """What a line of the profiler's shows. `flows` is what tells one session's numbers of flows from another's."""
    if line.plane.startswith("/device:"):
        if device := _DEVICE.fullmatch(line.plane):
            _add_stream(lines, line, device, mapping, flows)
        return
    pool = _POOL.fullmatch(line.name)
    name = pool[1] if pool else line.name
    if caller := _CALLER.fullmatch(line.name):
        name = thread_name(int(caller[1]))
    inside: list[_Piece] = []
    kernels: list[Event] = []
    calls: list[Event] = []
    executed: list[tuple[int, int]] = []
    launched = _launches(line.events)
    for piece in _walk(line.events):
        event = piece.event
        kernel = _is_kernel(event)
        if "correlation_id" in event.stats:
            calls.append(event)
        elif piece.category is not None and not piece.hidden:
            inside.append(piece)
        elif kernel:
            kernels.append(event)
        elif id(event) in launched:
            calls.append(event)
        if kernel or event.name == "ThunkExecutor::Execute":
            executed.append((event.start_ns, event.end_ns))

    def slice_of(event: Event, category: str) -> DeviceSlice:
        return _slice(event, _NUMBER.sub("", event.name), category, mapping, flows, launched.get(id(event), 0))

    lines.executed.extend((mapping(start), mapping(end)) for start, end in union(executed))
    key = line.name
    lines.add("xla", name, key, inside, lambda piece: _slice(piece.event, piece.name, str(piece.category), mapping))
    lines.add("device", f"CPU: {name}", key, kernels, lambda event: slice_of(event, "kernel"))
    lines.add("device", f"calls: {name}", key, calls, lambda event: slice_of(event, "runtime"))


def _add_stream(lines: Lines, line: Line, device: re.Match[str], mapping: Mapping, flows: int) -> None:
    """A stream of a GPU, a core of a TPU: operations as they ran. A TPU tells the programs around them, too."""
    programs = line.name in _PROGRAMS
    if device[2] == "GPU":  # what was launched; beside it are CUPTI's own overhead, and samples
        events = [event for event in line.events if "correlation_id" in event.stats]
    else:
        events = line.events if programs or line.name in _OPERATIONS else []

    def slice_of(event: Event) -> DeviceSlice:
        category = "annotation" if programs else "copy" if _COPY.match(event.name) else "kernel"
        return _slice(event, _NUMBER.sub("", event.name), category, mapping, flows)

    name = f"{device[1]} {_KINDS.sub('', line.name)}"
    lines.add("device", name, name, sorted(events, key=lambda event: event.start_ns), slice_of)
    if not programs:
        spans = union((event.start_ns, event.end_ns) for event in events)
        lines.executed.extend((mapping(start), mapping(end)) for start, end in spans)


def _slice(event: Event, name: str, category: str, mapping: Mapping, flows: int = 0, launch: int = 0) -> DeviceSlice:
    args = {key: str(event.stats[stat]) for stat, key in _ARGUMENTS.items() if stat in event.stats}
    flow = int(event.stats.get("correlation_id", 0)) or launch
    return DeviceSlice(
        mapping(event.start_ns), mapping(event.end_ns), name, category, args or None, flows + flow if flow else 0
    )


def _is_kernel(event: Event) -> bool:
    return "hlo_op" in event.stats and not event.name.startswith("end: ")


def _launches(events: list[Event]) -> dict[int, int]:
    """Where a CPU is the device: by event (its id), the number of the work that this call hands to another thread, or
    that this kernel is the first of."""
    launches: dict[int, int] = {}
    open_: list[Event] = []
    taken = 0
    for event in sorted(events, key=lambda event: (event.start_ns, -event.end_ns)):
        while open_ and open_[-1].end_ns < event.start_ns:
            open_.pop()
        if event.name == _HANDED_OVER:
            calls = (outer for outer in reversed(open_) if _EXECUTES.search(outer.name) and not _is_kernel(outer))
            if (call := next(calls, None)) is not None:
                launches.setdefault(id(call), int(event.stats.get("_p", 0)))
        elif event.name == _TAKEN_OVER:
            taken = int(event.stats.get("_c", 0))
        elif taken and _is_kernel(event):
            launches[id(event)], taken = taken, 0
        open_.append(event)
    return launches


@slotted
class _Piece:
    """An event of a thread: what it counts as, None for what is no part of a compile."""

    event: Event
    name: str
    category: str | None
    manages: bool = False
    hidden: bool = False


def _walk(events: list[Event]) -> Iterator[_Piece]:
    """Each event of a thread, in the light of what encloses it. XLA names neither passes nor compiles as such."""
    open_: list[_Piece] = []
    for event in sorted(events, key=lambda event: (event.start_ns, -event.end_ns)):
        while open_ and open_[-1].event.end_ns <= event.start_ns:
            open_.pop()
        piece = _piece(event, open_[-1] if open_ else None)
        yield piece
        open_.append(piece)


def _piece(event: Event, outer: _Piece | None) -> _Piece:
    name, module = event.name, event.stats.get("module")
    if name.startswith("ThreadpoolListener::"):
        return _Piece(event, name, None)
    pipeline = name.removesuffix(f" ({module})") if module is not None else name
    if pipeline != name:
        return _Piece(event, pipeline, "xla.compile", manages=True)
    manages = name in _MANAGERS
    if outer is not None and outer.manages:
        return _Piece(event, name, "xla.pass", manages)
    if outer is not None and outer.category == "xla.pass":
        # a pass's own details: its time
        return _Piece(event, name, "xla.pass", hidden=True)
    if _LINK.search(name):
        return _Piece(event, name, "xla.link")
    if name not in _WAITS and _CODEGEN.search(name):
        return _Piece(event, name, "xla.codegen", manages)
    if _DRIVERS.fullmatch(name):
        return _Piece(event, name, "xla.compile")
    category = outer.category if outer is not None else None
    return _Piece(event, name, "xla.compile" if category is not None and name in _WAITS else category)
