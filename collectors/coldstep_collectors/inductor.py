"""Shows Inductor's work: its phases, its compilers and caches, and the first execution of what it compiled."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from coldstep.clock import now
from coldstep.collector import Sink
from coldstep.events import Begin, End
from coldstep_collectors._private import torch as private
from coldstep_collectors._private.torch import Patch

_UNSEEN = "the first execution of compiled graphs (this version of PyTorch finishes its graphs in another way)"


class Inductor:
    """The collector `inductor`. The spans themselves are shared with `dynamo`, so each of the two works alone."""

    name = "inductor"

    def start(self, sink: Sink) -> None:
        """Attach when torch is there, and to Inductor when the first compile imports it."""
        self._sink = sink
        self._torch: Any = None
        self._late: bool | None = False
        self._missing: list[str] = []
        self._patch: Patch | None = None
        self._waiting: list[Callable[[], bool]] = []
        self._spans = private.spans(sink)
        sink.when_imported("torch", self._attach)
        sink.when_imported(private.GRAPHS_MODULE, self._watch)
        self._spans.join(self.name, self._tell)

    def stop(self) -> list[str]:
        """Put back every hook that is still ours."""
        left = [self._patch.undo()] if self._patch is not None else []
        if waiting := sum(waits() for waits in self._waiting):
            left.append(
                f"a wrapper around each of {waiting} compiled graphs that have not run; the first call removes it"
            )
        return [words for words in left if words is not None] + self._spans.leave(self.name)

    def _attach(self, torch: Any) -> None:
        self._torch = torch
        self._late = private.has_compiled()
        self._tell()

    def _watch(self, module: ModuleType) -> None:
        self._patch = private.watch_graphs(module, self._sink.guarded(self.name, self._made))
        if self._patch is None:
            self._missing.append(_UNSEEN)
            self._tell()

    def _tell(self) -> None:
        if self._torch is None:
            return
        missing = [*self._missing, *self._spans.missing]
        if self._late is None:
            missing.append("whether anything was compiled before the trace")
        state = "late" if self._late or self._late is None else "partial" if missing else "attached"
        self._sink.state(self.name, state, getattr(self._torch, "__version__", None), missing)

    def _made(self, graph: Any) -> None:
        """`graph` is ready: its next call is its first execution."""
        segment = self._spans.current()
        compile_id = segment.compile.id if segment is not None else None

        def begin(is_backward: bool) -> Begin:
            args = {"of": compile_id, "part": "backward" if is_backward else "forward"}
            begun = Begin(now(), "first execution", "execute", "execute", None, args)
            self._sink.emit(begun)
            return begun

        def end(begun: Begin | None) -> None:
            if begun is not None:
                self._sink.emit(End(now(), begun))

        waits = private.around_next_call(graph, self._sink.guarded(self.name, begin), end)
        if waits is not None:
            self._waiting.append(waits)
