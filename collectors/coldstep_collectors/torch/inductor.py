"""Shows Inductor's work: its phases, compilers and caches, the first execution of what it compiled, its CUDA graphs,
and which graphs have none though they should."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

from coldstep.clock import now
from coldstep.collector import StepSink
from coldstep.events import CUDA_GRAPH, TUNED, Args, Begin, End, emit_whole
from coldstep.vocabulary import AUTOTUNE
from coldstep_collectors.names import Hook, missing
from coldstep_collectors.patch import Undo, undo_all
from coldstep_collectors.torch import tuning
from coldstep_collectors.torch._private import aside, cuda_graphs, graphs, names, phases
from coldstep_collectors.torch._private.spans import has_compiled, spans


class Inductor:
    """The collector `inductor`. The spans themselves are shared with `dynamo`, so each of the two works alone."""

    name = "inductor"

    def start(self, sink: StepSink) -> None:
        """Attach when torch is there, and to Inductor when the first compile imports it."""
        self._sink = sink
        self._torch: Any = None
        self._late: bool | None = False
        self._missing: list[str] = []
        self._waiting: list[Callable[[], bool]] = []
        self._undo: list[Undo] = []
        self._spans = spans(sink)
        self._skips: set[tuple[str, str]] = set()
        sink.when_imported("torch", self._attach)
        for module, hooks in names.INDUCTOR.items():
            sink.when_imported(module, partial(self._look_for, hooks))
        self._spans.join(self.name, self._tell)

    def stop(self) -> list[str]:
        """Put back every hook that is still ours."""
        left = undo_all(self._undo)
        if waiting := sum(waits() for waits in self._waiting):
            left.append(
                f"a wrapper around each of {waiting} compiled graphs that have not run; the first call removes it"
            )
        return left + self._spans.leave(self.name)

    def _attach(self, torch: Any) -> None:
        self._torch = torch
        self._late = has_compiled()
        self._tell()

    def _look_for(self, hooks: tuple[Hook, ...], _module: ModuleType) -> None:
        guarded = partial(aside.guarded, self._sink)
        if names.COMPILED_GRAPH in hooks and (patch := graphs.watch_graphs(guarded(self.name, self._made))):
            self._undo.append(patch.undo)
        if names.CUDA_GRAPH_RUNS in hooks:
            patches = cuda_graphs.watch(guarded(self.name, self._not_replayed), guarded(self.name, self._ended))
            self._undo += [patch.undo for patch in patches]
        if names.COMPILED_GRAPH in hooks:
            self._undo.append(cuda_graphs.on_skips(self._sink.guarded(self.name, self._skipped)))
        if names.TUNER in hooks and (undo := tuning.watch(guarded(self.name, self._tuned))) is not None:
            self._undo.append(undo)
        if unseen := missing(hooks):
            self._missing += unseen
            self._tell()

    def _tell(self) -> None:
        if self._torch is not None:
            self._spans.tell(self.name, self._torch, self._late, self._missing)

    def _made(self, graph: Any) -> None:
        """`graph` is ready: its next call is its first execution."""
        segment = self._spans.current()
        compile_id = segment.compile.id if segment is not None else None

        def begin(is_backward: bool, inputs: Any) -> tuple[Begin, Allocated]:
            args = {"of": compile_id, "part": "backward" if is_backward else "forward"}
            before = Allocated(self._torch, inputs)
            begun = Begin(now(), "first execution", "execute", "execute", None, args)
            self._sink.emit(begun)
            return begun, before

        def end(started: tuple[Begin, Allocated] | None, result: Any) -> None:
            if started is not None:
                begun, before = started
                self._sink.emit(End(now(), begun, {"memory": before.until(result)} if compile_id else None))

        guarded = partial(aside.guarded, self._sink)
        if (waits := graphs.around_next_call(graph, guarded(self.name, begin), guarded(self.name, end))) is not None:
            self._waiting.append(waits)

    def _tuned(self, timings: Any, name: str, inputs: Any, *_: Any) -> None:
        """All choices for an operation have been timed, or were in an earlier process."""
        if (outcome := tuning.describe(timings, name, inputs)) is not None:
            segment = self._spans.current()
            args: Args = {TUNED: outcome, "of": segment.compile.id if segment is not None else None}
            ns = now()
            emit_whole(self._sink.emit, Begin(ns, "autotuned", "torch", AUTOTUNE, None, args), ns)

    def _not_replayed(self, kind: str, *run: Any) -> Begin:
        """A compiled graph runs to warm up for its CUDA graph, or is recorded as one."""
        graph = cuda_graphs.describe(kind, *run)
        phase = phases.CUDA_GRAPHS if kind == cuda_graphs.RECORDING else "execute"
        args: Args = {CUDA_GRAPH: kind, "of": self._spans.known_as(graph.framework_id), "part": graph.part}
        args |= {"sizes": graph.sizes, "reason": graph.reason}
        begun = Begin(now(), f"CUDA graph {kind}", "execute", phase, None, args)
        self._sink.emit(begun)
        self._sink.unsettled()
        return begun

    def _skipped(self, words: str) -> None:
        """A graph runs without a CUDA graph, though one was asked for."""
        row = cuda_graphs.without_a_cuda_graph(words, now())
        if (row.text, str(row.location)) not in self._skips:
            self._skips.add((row.text, str(row.location)))
            self._sink.emit(row)

    def _ended(self, begun: Begin | None) -> None:
        if begun is not None:
            self._sink.emit(End(now(), begun))


class Allocated:
    """What a graph is given, returns, and needs besides: sizes only, no tensor is kept."""

    def __init__(self, torch: Any, inputs: Any) -> None:
        self._torch = torch
        self._argument_bytes = self._size(inputs)
        self._before = self._device()

    def until(self, result: Any) -> Args:
        """The sizes, once the graph has returned `result`."""
        output_bytes = self._size(result)
        before, after = self._before, self._device()
        temp_bytes = None
        # the allocator keeps one peak for all time: only a new one is this graph's
        if before is not None and after is not None and after[1] > before[1]:
            temp_bytes = max(0, after[1] - before[0] - output_bytes)
        return {"argument_bytes": self._argument_bytes, "output_bytes": output_bytes, "temp_bytes": temp_bytes}

    def _size(self, tensors: Any) -> int:
        if not isinstance(tensors, (list, tuple)):
            tensors = [tensors]
        return sum(tensor.nbytes for tensor in tensors if isinstance(tensor, self._torch.Tensor))

    def _device(self) -> tuple[int, int] | None:
        cuda = self._torch.cuda
        if not cuda.is_initialized():
            return None
        return int(cuda.memory_allocated()), int(cuda.max_memory_allocated())
