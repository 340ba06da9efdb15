"""The compiler's spans, taken from its event logger, as phases and compiles on the thread that they happen on."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol
from weakref import ref

from coldstep._util.slotted import field, slotted_object
from coldstep.clock import now
from coldstep.collector import Sink
from coldstep.errors import contained
from coldstep.events import CHOICES, HELD_UP, KERNELS, Args, Begin, End
from coldstep_collectors.names import missing
from coldstep_collectors.patch import Patch, undo_all
from coldstep_collectors.proc import waited_ns
from coldstep_collectors.torch._private import aside, names
from coldstep_collectors.torch._private.cache_keys import AUTOGRAD_MODULE, INDUCTOR_MODULE, Components, Writes
from coldstep_collectors.torch._private.caches import AOT_AUTOGRAD, FX_GRAPH, Profile, cache_answer
from coldstep_collectors.torch._private.phases import LOAD, WAIT, compiles_a_choice, part_of, phase_of, times_choices

if TYPE_CHECKING:
    from coldstep_collectors.torch._private.programs import Written

SPANS_MODULE = "torch._dynamo.utils"
_BACKEND = ("inductor_compile", "AOTAutogradCache.inductor_load")


def has_compiled() -> bool | None:
    """Whether anything has been compiled in this process; None when that cannot be known."""
    if SPANS_MODULE not in sys.modules:
        return False
    times = names.COMPILED.find()
    return None if times is None else bool(times)


@slotted_object
class Compile:
    """A frame's compile, for as long as PyTorch may go on with it: its backward can come much later."""

    id: str
    function: str
    frame: tuple[str, str]
    """File and name of the frame that is compiled, as PyTorch knows it."""
    failures: list[str] = field(default_factory=list)
    """Why each earlier variant was not good enough, in PyTorch's words."""
    guarded: dict[str, Args] = field(default_factory=dict)
    """The values now where those words look."""
    breaks: dict[tuple[str, int], str] = field(default_factory=dict)
    """The graph breaks met, by place."""
    outcome: str = "compiled"
    inductor: bool = False
    """Inductor has compiled or loaded something for it."""
    program: str | None = None
    """What the graph computes, as a hash."""
    written: Written = field(default_factory=list)
    """The graph's operations, among which may be a Python loop of which it holds every turn."""
    caches: list[Args] = field(default_factory=list)
    """The answers of disk caches, as its arguments list them."""
    kernels: list[bool] = field(default_factory=list)
    """Of each C++ kernel, whether it had been built already."""
    regions: dict[Any, Any] = field(default_factory=dict)
    """By their code, the nested_compile_regions in its graph."""
    graph: ref[Any] | None = None
    """That graph: where Dynamo begins again, there is another one."""
    module_ns: int = 0
    """How long its generated modules took to load, which they do in every process; without the wait for kernels."""

    def add_cache(self, row: Args) -> None:
        """One more answer of a disk cache; equal ones are one row, what they saved is summed."""
        for known in self.caches:
            if all(known.get(name) == row.get(name) for name in ("layer", "state", "part", "key")):
                if row.get("saved_ns") is not None:
                    known["saved_ns"] = (known.get("saved_ns") or 0) + row["saved_ns"]
                if "written" in row:
                    known["written"] = row["written"]
                return
        self.caches.append(row)

    def states(self) -> set[tuple[str, str]]:
        """The answer of each layer."""
        return {(row["layer"], row["state"]) for row in self.caches}


@slotted_object
class Segment:
    """An open stretch of a compile on this thread."""

    compile: Compile
    part: str
    whole: bool
    """Not within another segment of the same compile: its end shows how the compile ended."""
    outermost: bool
    handling: int
    """id of the exception that was being handled when it began: not its own."""


Closed = tuple[Args, Callable[[], Args] | None]
"""The arguments known at the end of a segment, and a function for the rest: see `coldstep.events.End.later`."""


class Segments(Protocol):
    """Whoever makes compiles out of spans. Both methods are called inside the hook, and must not raise."""

    def open(self, part: str, enclosing: Segment | None) -> tuple[Segment, Args] | None:
        """A span begins that is a part of a compile, within `enclosing`."""

    def close(self, segment: Segment, metadata: Mapping[str, Any] | None) -> Closed | None:
        """The end of what `open` returned; `metadata` is the span's, None when its end was never announced."""


@slotted_object
class _Span:
    begin: Begin
    segment: Segment | None
    around: Begin | None
    """The segment's own slice."""
    waited_ns: int | None
    """Of one that times choices: how long the thread had stood in line for a processor before it."""


class _Thread(threading.local):
    def __init__(self) -> None:
        self.open: list[_Span] = []


class Spans:
    """The compiler's spans as phases on the thread that they happen on; the collectors of one session share it."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._thread = _Thread()
        self._members: dict[str, Callable[[], None]] = {}
        self._patches: list[Patch] = []
        self._compiles: dict[int, tuple[ref[Any], Compile]] = {}
        self._ids: dict[str, str] = {}  # the framework's, of the latest compile that had it → ours
        self._frames: str | None = None
        self.segments: Segments | None = None
        self.missing: list[str] = []
        self.components = Components()
        self._profile = Profile(late=has_compiled() is not False)
        self.writes: Writes | None = None

    def current(self) -> Segment | None:
        """The innermost open segment on this thread."""
        for span in reversed(self._thread.open):
            if span.segment is not None:
                return span.segment
        return None

    def join(self, collector: str, changed: Callable[[], None]) -> None:
        """`collector` wants the spans; `changed()` is called when `missing` has grown."""
        first = not self._members
        self._members[collector] = changed
        if first:
            self._begin = self._sink.guarded(collector, self._on_begin)
            self._instant = self._sink.guarded(collector, self._on_instant)
            self._sink.when_imported(SPANS_MODULE, self._install)
            self.writes = Writes(self.components, self._on_kernel, partial(aside.guarded, self._sink, collector))
            self._sink.when_imported(INDUCTOR_MODULE, self.writes.watch_inductor)
            self._sink.when_imported(AUTOGRAD_MODULE, self.writes.watch_autograd)

    def tell(self, collector: str, torch: Any, late: bool | None, unseen: list[str]) -> None:
        """Report how `collector` is attached: the `unseen` facts besides the spans; `late` as `has_compiled`."""
        unseen = [*unseen, *self.missing, *(missing((names.COMPILED,)) if late is None else ())]
        state = "late" if late or late is None else "partial" if unseen else "attached"
        self._sink.state(collector, state, getattr(torch, "__version__", None), unseen)

    def leave(self, collector: str) -> list[str]:
        """`collector` is done; the last one puts everything back."""
        global _shared
        self._members.pop(collector, None)
        if self._members:
            return []
        if _shared is self:
            _shared = None
        self._compiles.clear()
        self._ids.clear()
        return undo_all(self._patches) + (self.writes.remove() if self.writes is not None else [])

    def remember(self, compile: Compile) -> None:
        """Know `compile` again by PyTorch's own object for it, which its backward brings along."""
        if (context := _compile_context()) is not None:
            key = id(context)
            self._compiles[key] = (ref(context, lambda _: self._compiles.pop(key, None)), compile)
            if (framework_id := getattr(context, "compile_id", None)) is not None:
                self._ids[str(framework_id)] = compile.id

    def remembered(self) -> Compile | None:
        """The compile that PyTorch is at now on this thread."""
        context = _compile_context()
        reference, compile = self._compiles.get(id(context), (None, None))
        return compile if reference is not None and reference() is context else None

    def known_as(self, framework_id: str | None) -> str | None:
        """Our id of the compile that PyTorch calls so ("0/1"); a reset starts its ids again."""
        return self._ids.get(framework_id) if framework_id is not None else None

    def event(self, kind: str, name: str, metadata: Mapping[str, Any] | None) -> None:
        """One PyTorch event: a span's begin ("B") or end ("E"), or an instant ("i")."""
        if kind == "B":
            self._begin(name)
        elif kind == "E":
            # not behind the circuit breaker: what began before a failure must end, or it would own all time to come
            with contained():
                self._on_end(name, metadata or {})
        elif kind == "i":
            self._instant(name, metadata or {})

    def _install(self, _utils: ModuleType) -> None:
        make_logger = names.LOGGER.find()
        # made as the first compile would make it, so that what torch keeps in it outlives our coming and going
        logger: Any = make_logger() if make_logger is not None else None
        read = names.EVENTS.read_of(logger) if names.EVENTS.form() is not None else ()
        if not read:
            self.missing += missing((names.LOGGER, names.EVENTS)) or [names.EVENTS.unseen or ""]
            for changed in self._members.values():
                changed()
            return
        timed_name, instant_name = read
        timed, instant, event = getattr(logger, timed_name), getattr(logger, instant_name), aside.aside(self.event)

        def log_timed_event(name: str, ns: int, kind: str, metadata: Any = None) -> Any:
            event(kind, name, metadata)
            return timed(name, ns, kind, metadata)

        def log_instant_event(name: str, ns: int, metadata: Any = None, *args: Any, **kwargs: Any) -> Any:
            event("i", name, metadata)
            return instant(name, ns, metadata, *args, **kwargs)

        self._patches += [Patch(logger, timed_name, log_timed_event), Patch(logger, instant_name, log_instant_event)]

    def _on_begin(self, name: str) -> None:
        ns = now()
        part = part_of(name, self._forward())
        enclosing = self.current()
        opened = self.segments.open(part, enclosing) if part is not None and self.segments is not None else None
        segment, around = None, None
        if opened is not None:
            segment, args = opened
            compile = segment.compile
            title = compile.function if part in ("forward", "ahead") else f"{compile.function} {part}"
            around = Begin(ns, title, "torch", None, compile.id, args)
        if name in _BACKEND and enclosing is not None:
            enclosing.compile.inductor = True
        if name == WAIT:
            phase, kernels = _waits_for()
            begin = Begin(ns, name, "torch", phase, args={KERNELS: kernels})
        else:
            open_names = [span.begin.name for span in self._thread.open]
            tunes = {CHOICES: True} if compiles_a_choice(name, open_names) else None
            begin = Begin(ns, name, "torch", _phase(name, open_names), args=tunes)
        waited = waited_ns() if times_choices(name) else None
        self._thread.open.append(_Span(begin, segment, around, waited))
        if around is not None:
            self._sink.emit(around)
        self._sink.emit(begin)
        if segment is not None and segment.outermost:
            self._sink.compile_opened()
            self._sink.wake()

    def _forward(self) -> str:
        """The name of the spans of whole frames in this version."""
        if self._frames is None and (form := names.FORWARD.form()) is not None:
            self._frames = form.says[0]
        return self._frames or names.FORWARD.forms[0].says[0]

    def _on_end(self, name: str, metadata: Mapping[str, Any]) -> None:
        stack = self._thread.open
        if not any(span.begin.name == name for span in stack):
            return
        ns, is_own = now(), False
        if (answer := self._profile.answer(name, metadata)) is not None and (segment := self.current()) is not None:
            segment.compile.add_cache(answer)
        while not is_own:
            span = stack.pop()
            is_own = span.begin.name == name
            self._sink.emit(End(ns, span.begin, _held_up(span.waited_ns)))
            if span.begin.name in (LOAD, WAIT):
                self._loaded(span.begin, ns - span.begin.ns)
            if span.segment is not None and span.around is not None:
                closed = self.segments.close(span.segment, metadata if is_own else None) if self.segments else None
                self._sink.emit(End(ns, span.around, *(closed or ())))
                if span.segment.outermost:
                    self._sink.compile_closed()

    def _on_instant(self, name: str, metadata: Mapping[str, Any]) -> None:
        segment = self.current()
        if segment is None or (answer := cache_answer(name, metadata, self.components)) is None:
            return
        writes = self.writes
        # PyTorch's own lines, which a level of its logging adds, are hashed in another way
        if writes is not None and (
            "components" not in answer or (answer["layer"] == AOT_AUTOGRAD and writes.sees_keys)
        ):
            answer["components"] = writes.components_of(answer.get("key"))
            if answer["state"] == "miss":
                answer |= writes.not_taken(answer.get("key"))
        if writes is not None and (answer["layer"], answer["state"]) == (FX_GRAPH, "miss"):
            answer |= writes.not_loaded(answer.get("key"))
        segment.compile.add_cache(answer)

    def _loaded(self, begin: Begin, ns: int) -> None:
        """A generated module has been loaded, or the kernels that it waits for have come."""
        if (segment := self.current()) is None:
            return
        if begin.name == LOAD:
            segment.compile.module_ns += ns
        elif any(span.begin.name == LOAD for span in self._thread.open):
            segment.compile.module_ns -= ns

    def _on_kernel(self, built: bool) -> None:
        if (segment := self.current()) is not None:
            segment.compile.kernels.append(built)


_shared: Spans | None = None


def spans(sink: Sink) -> Spans:
    """The spans of the session behind `sink`, shared by the collectors that ask for them."""
    global _shared
    if _shared is None or _shared._sink is not sink:
        _shared = Spans(sink)
    return _shared


def _compile_context() -> Any:
    try_get = names.CONTEXT.find()
    return try_get() if try_get is not None else None


def _phase(name: str, enclosing: list[str]) -> str | None:
    """The phase of a span. Where no Triton is, the same spans tune kernels for a CPU: a part of what is open."""
    if (phase := phase_of(name, enclosing)) != "inductor.triton":
        return phase
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    is_gpu = "triton" in sys.modules and cuda is not None and cuda.is_initialized()
    return phase if is_gpu else None


def _held_up(before_ns: int | None) -> Args | None:
    """What the end of a span adds that times choices: PyTorch's times hold what the thread waited meanwhile, too."""
    after_ns = waited_ns() if before_ns is not None else None
    return {HELD_UP: after_ns - before_ns} if after_ns is not None and before_ns is not None else None


def _waits_for() -> tuple[str, int]:
    """What the owner waits for in `AsyncCompile.wait`, the kernels that the generated module has asked for: how they
    are compiled, and how many they are."""
    [scope] = names.WAITING.local(names.WAITING.on_stack(sys._getframe(1))) or (None,)
    made = scope.items() if isinstance(scope, dict) else ()
    kernels = [str(name) for name, value in made if hasattr(type(value), "result")]  # futures
    triton = any(name.startswith("triton_") for name in kernels)
    return "inductor.triton" if triton else "inductor.cpp", len(kernels)
