"""Shows what JAX compiles: tracing, lowering and XLA's part of every program, and what the program is a version of.

Public `jax.monitoring` events give the time; the Python stack at each event shows the program. On a step that compiles
nothing no code of ours runs, but for one integer increment per Python dispatch.
"""

from __future__ import annotations

import re
import sys
import threading
import weakref
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

from coldstep import context as forms
from coldstep._util.figures import duration
from coldstep._util.slotted import slotted_object
from coldstep.blind_spots import RECOMPILES, Unseen
from coldstep.clock import now
from coldstep.collector import AheadSink
from coldstep.errors import contained, first_line, our_errors
from coldstep.events import Args, Begin, End
from coldstep.named_tuple import NamedTuple
from coldstep.places import frames
from coldstep_collectors.captures import Captures
from coldstep_collectors.jax._private.caches import Lookup, Lookups
from coldstep_collectors.jax._private.hooks import Dispatch, Equations, Internals, callback, equations, operations
from coldstep_collectors.jax._private.names import NEWEST, PYTHON_DISPATCH, REAL_TRACE
from coldstep_collectors.jax.describe import Describer
from coldstep_collectors.jax.lookahead import Prospects
from coldstep_collectors.jax.stale import Stale
from coldstep_collectors.jax.switched_off import SwitchedOff
from coldstep_collectors.names import unknown_version
from coldstep_collectors.patch import Undo, undo_all
from coldstep_collectors.unrolled import unrolled

TRACE, LOWER, XLA = "jax.trace", "jax.lower", "xla.compile"
_PHASES = {
    "/jax/core/compile/jaxpr_trace_duration": TRACE,
    "/jax/core/compile/jaxpr_to_mlir_module_duration": LOWER,
    "/jax/core/compile/backend_compile_duration": XLA,
}
_NAMELESS = Unseen(
    "recompiles of functions that this version of JAX does not show (jax.pmap's, before 0.9)", RECOMPILES
)
_NEXT = {TRACE: LOWER, LOWER: XLA}
_FORMS = {LOWER: "jaxpr", XLA: "stablehlo"}  # what there is when a phase begins
_CACHE_ASKED = "/jax/compilation_cache/compile_requests_use_cache"
_CACHE_HIT = "/jax/compilation_cache/cache_hits"
_CACHE_SAVED = "/jax/compilation_cache/compile_time_saved_sec"
_MOST_SAVED_S = 1e9  # what is longer is no time
# what lowering and XLA call train_step
# JAX 0.10: "jit(train_step)"
_JITTED = re.compile(r"\w+\((.*)\)", re.DOTALL)


@slotted_object
class _Compile:
    """One program, known for as long as JAX keeps it: `lower()` and `compile()` may be far apart."""

    id: str
    about: Args
    generation: int = 1  # how many times JAX has had to make this very program, having forgotten it
    finished: bool = False
    captures: Captures | None = None

    def is_of(self, about: Args) -> bool:
        """Whether a dispatch whose program is described by `about` goes on with this compile."""
        return not self.finished and all(self.about[key] == about[key] for key in ("identity", "inputs", "context"))

    def signature(self) -> int | None:
        """A number for all that JAX keys the program with, None where the function object is not known."""
        about = self.about
        if forms.FUNCTION.key() not in about["context"]:
            return None
        inputs = tuple((row["argument"], row["type"]) for row in about["inputs"] or ())
        return hash((about["identity"], inputs, tuple(about["context"].items())))


@slotted_object
class _Segment:
    """A compile's stretch within one dispatch; between two phases of the dispatch it is open with no phase in it."""

    compile: _Compile
    begin: Begin
    jax_name: str
    dispatch: int | None
    phase: Begin | None = None
    next_phase: str | None = None  # where none is open: what is to come
    handling: int = 0  # id of the exception that was being handled when the phase began: not the phase's own
    phase_ended_ns: int = 0
    really_traced: bool = False
    asked_cache: bool = False
    hit_cache: bool = False
    saved_ns: int | None = None
    context: dict[str, str] | None = None  # once XLA has begun: what the signature says beyond the inputs


class _Listener(NamedTuple):
    """A listener of ours, which a program may take away with everybody's."""

    kind: str
    call: Callable[..., None]
    register: Callable[[Callable[..., None]], None]


class _Thread(threading.local):
    """The segments open on this thread, outermost first: small programs are compiled while a large one is traced."""

    def __init__(self) -> None:
        self.open: list[_Segment] = []


class Jax:
    """The collector `jax`."""

    name = "jax"

    def __init__(self) -> None:
        self._undo: list[Undo] = []
        self._listeners: list[_Listener] = []
        self._heard_ns = 0
        self._thread = _Thread()
        self._is_tracing: Callable[[], bool] | None = None
        self._programs: dict[int, tuple[weakref.ref[Any], _Compile]] = {}
        self._traced: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._stale: Stale | None = None
        self._switched_off: SwitchedOff | None = None

    def start(self, sink: AheadSink) -> None:
        """Attach when JAX is there."""
        self._sink = sink
        self._began_ns = self._heard_ns = now()
        sink.when_imported("jax", self._attach)

    def stop(self) -> list[str]:
        """Unregister all listeners and give back the slots that are still ours."""
        if self._stale is not None:
            self._stale.tell()
        if self._switched_off is not None:
            self._switched_off.tell()
        while self._thread.open and self._thread.open[-1].phase is None:
            self._abandon()
        left = undo_all(self._undo)
        self._listeners.clear()
        self._programs.clear()
        self._traced.clear()
        return left

    def _attach(self, jax: Any) -> None:
        sink, internals = self._sink, Internals()
        self._jax = jax
        self._internals = internals
        self._describer = Describer(jax, internals)
        self._stale = Stale(sink, jax)
        self._switched_off = SwitchedOff(sink, jax)
        self._prospects = Prospects(sink, self._describer)
        sink.on_first_step(sink.guarded(self.name, self._prospects.ahead))
        self._lookups = Lookups(internals.missing, partial(sink.guarded, self.name))
        self._undo.append(self._lookups.undo)
        late = internals.has_compiled()
        self._watch_phases()
        self._sees_cache = self._listen("event", "event", self._cache_event, "whether the persistent cache was hit")
        self._listen("event_duration_secs", "event_duration", self._cache_saved, "what the persistent cache saved")
        self._undo.append(internals.on_test_event(sink.guarded(self.name, self._test_event)))
        backend_begins = sink.guarded(self.name, self._backend_begins)
        backend_ended = sink.guarded(self.name, self._backend_ended)
        self._undo += internals.around_backend_init(backend_begins, backend_ended)
        self._is_tracing = internals.is_tracing()
        if self._is_tracing is not None:
            sink.is_tracing(self._is_tracing)
        sink.on_wait(self._wait)
        if (newer := unknown_version("JAX", jax.__version__, NEWEST)) is not None:
            sink.note(newer)
        self._late = late
        self._tell()

    def _tell(self) -> None:
        missing = self._internals.missing
        state = "late" if self._late else "partial" if missing else "attached"
        self._sink.state(self.name, state, getattr(self._jax, "__version__", None), missing)

    def _watch_phases(self) -> None:
        hooks = self._phase_begins, self._phase_ends
        kinds = "scalar", "event_time_span"
        if all(self._found_in_monitoring(kind, kind) for kind in kinds):
            for kind, hook in zip(kinds, hooks, strict=True):
                self._listen(kind, kind, hook, "")
        else:
            self._undo.append(self._internals.around_phases(*(self._sink.guarded(self.name, hook) for hook in hooks)))

    def _found_in_monitoring(self, register: str, unregister: str) -> tuple[Any, Any] | None:
        """What adds a listener, and what takes it away again; None where one of them is not there."""
        monitoring = self._jax.monitoring
        add = getattr(monitoring, f"register_{register}_listener", None)
        remove = getattr(monitoring, f"unregister_{unregister}_listener", None) or self._internals.unregister(
            unregister
        )
        return (add, remove) if add is not None and remove is not None else None

    def _listen(self, register: str, unregister: str, hook: Any, what: str) -> bool:
        """Whether `hook` is called from now on; where it is not, `what` is missing."""
        if (listeners := self._found_in_monitoring(register, unregister)) is None:
            self._internals.missing.append(Unseen(f"{what} (this version of jax.monitoring does not report it)"))
            return False
        add, remove = listeners
        listener = self._sink.guarded(self.name, hook)
        add(listener)
        self._listeners.append(_Listener(unregister, listener, add))

        def undo() -> None:
            try:
                remove(listener)
            except (AssertionError, ValueError):
                return  # somebody has removed everybody's listeners

        self._undo.append(undo)
        return True

    def _listen_again(self, ns: int) -> None:
        """Register again what the program took away with everybody's listeners, and say from when to when."""
        registered = self._internals.registered
        lost = [
            each for each in self._listeners if (known := registered(each.kind)) is not None and each.call not in known
        ]
        if not lost:
            return
        for each in lost:
            each.register(each.call)
        since, until = (duration(at - self._began_ns) for at in (self._heard_ns, ns))
        self._sink.note(
            f"the program removed all listeners of jax.monitoring (clear_event_listeners) between {since} and {until} "
            "into the trace: compiles in that time may be missing, or have no end; coldstep listens again"
        )

    def _is_within(self, phase: str) -> bool:
        """Whether this is the tracing of a function that is called by one being traced: no program of its own. JAX
        told of it until 0.9."""
        return phase == TRACE and self._is_tracing is not None and self._is_tracing()

    # --- hooks ------------------------------------------------------------------------------------------------

    def _phase_begins(self, event: str, _value: float, *, fun_name: str = "", **_: Any) -> None:
        name = _PHASES.get(event)
        if name is None or self._is_within(name):
            return
        ns = now()
        self._listen_again(ns)
        frame = sys._getframe(1)
        dispatch = self._internals.dispatch(frame)
        jitted = _JITTED.fullmatch(fun_name)
        function = jitted[1] if jitted else fun_name
        segment = self._waiting(name, function, dispatch, frame) or self._open(ns, name, dispatch, function, frame)
        if name == XLA:
            self._lookups.begin()
            segment.context = self._describer.with_backend(segment.compile.about["context"], dispatch)
            if segment.compile.generation > 1:
                segment.context[forms.CACHE.key()] = forms.generation(segment.compile.generation)
        segment.handling = id(sys.exc_info()[1])
        segment.next_phase = _NEXT.get(name) if (dispatch.lowers if name == TRACE else dispatch.compiles) else None
        if name == TRACE:
            segment.really_traced = not self._internals.tells_traces_from_cached
        segment.phase = Begin(ns, name, "jax", name)
        self._sink.emit(segment.phase)
        if name in _FORMS:
            self._keep_ir(segment, _FORMS[name], partial(self._internals.text, dispatch))

    def _phase_ends(self, event: str, _start: float, _end: float, **_: Any) -> None:
        name = _PHASES.get(event)
        stack = self._thread.open
        if name is None or not any(segment.phase and segment.phase.name == name for segment in stack):
            return  # not of interest, or begun before we attached
        if self._is_within(name):
            return
        ns = self._heard_ns = now()
        while (phase := stack[-1].phase) is None or phase.name != name:
            self._abandon()
        segment = stack[-1]
        self._sink.emit(End(ns, phase))
        segment.phase, segment.phase_ended_ns = None, ns
        if name == TRACE and segment.really_traced:
            self._keep_trace(segment.compile, sys._getframe(1))
            if segment.compile.captures is not None:
                segment.compile.captures.remember()
        if (error := sys.exc_info()[1]) is not None and id(error) != segment.handling:
            self._close(ns, "failed", error=first_line(error), **self._describer.failed_at(error))
        elif name == XLA:
            self._finished(segment.compile)
            outcome = "cache_hit" if segment.hit_cache else "compiled"
            looked = Begin(ns, "look at the program", "coldstep", "coldstep")
            self._sink.emit(looked)
            lookup = self._lookups.take()
            frame = sys._getframe(1)
            more, later = self._made(segment, frame)
            more["program"] = lookup.program
            ns = now()
            self._sink.emit(End(ns, looked))
            more |= {"caches": self._caches(segment, lookup), "context": segment.context}
            self._close(ns, outcome, later, **more)
            if later is not None:
                self._sink.wake()  # while the program runs what was compiled
        elif segment.next_phase is None or (name == TRACE and not segment.really_traced):
            # perhaps nothing follows, perhaps later: after .trace(), .lower(), eval_shape(), or where the trace was
            # remembered, and then perhaps the rest is too
            frame = sys._getframe(1)
            program = self._internals.traced(frame) if name == TRACE else self._internals.lowered(frame)
            self._remember(program, segment.compile)
            self._close(ns, "traced_only")

    def _keep_ir(self, segment: _Segment, form: str, text: Callable[[], str | None]) -> None:
        if segment.compile.about["origin"] == "user":
            self._sink.keep_ir(segment.compile.id, form, text)

    def _made(self, segment: _Segment, frame: FrameType) -> tuple[Args, Callable[[], Args] | None]:
        """What is known of the program only when its compilation, which ends in `frame`, is done; and what finds out
        the rest, of a program of the user's."""
        internals, about = self._internals, segment.compile.about
        self._keep_ir(segment, "optimized_hlo", partial(internals.optimized, frame))
        made: Args = {}
        results = internals.results(frame)
        if effects := self._describer.returned(about, results):
            made["effects"] = effects
        if about["origin"] != "user":
            return made, None
        if results is not None and (held := self._describer.held(results.constants)):
            made["constants"] = held
        written = None
        if (jaxpr := internals.jaxpr(frame)) is not None:
            made["operations"] = {"jaxpr": operations(jaxpr)}
            if effects and (place := callback(jaxpr, self._describer.is_users)) is not None:
                made["cause_at"] = place
            written = equations(jaxpr) if about["location"] is not None else None
        return made, partial(self._found_later, about, internals.memory(frame), written)

    def _found_later(self, about: Args, memory: Callable[[], Args], written: Equations | None) -> Args:
        """On coldstep's own thread: see `coldstep.events.End.later`."""
        more = memory()
        if written is not None:
            fails = f"no loop was looked for in {about['function']}"
            with contained(lambda error: self._sink.note(f"{fails}: {first_line(error)}")):
                more["unrolled"] = unrolled(written.written(about["location"], self._describer.is_users))
        return more

    def _cache_event(self, event: str, **_: Any) -> None:
        stack = self._thread.open
        if stack and event == _CACHE_ASKED:
            stack[-1].asked_cache = True
        elif stack and event == _CACHE_HIT:
            stack[-1].hit_cache = True

    def _cache_saved(self, event: str, seconds: float, **_: Any) -> None:
        stack = self._thread.open
        if stack and event == _CACHE_SAVED and abs(seconds) < _MOST_SAVED_S:
            stack[-1].saved_ns = max(0, round(seconds * 1e9))

    def _test_event(self, event: str, *_: Any) -> None:
        if event == PYTHON_DISPATCH:
            if not any(segment.phase for segment in self._thread.open):
                self._sink.count_dispatch()
        elif event == REAL_TRACE:
            self._listen_again(now())
            if self._thread.open:
                self._thread.open[-1].really_traced = True

    def _backend_begins(self, platform: str) -> Begin:
        begin = Begin(now(), "jax.backend_init", "jax", "jax.backend_init", args={"platform": platform})
        self._sink.emit(begin)
        return begin

    def _backend_ended(self, begin: Begin | None) -> None:
        if begin is not None:
            self._sink.emit(End(now(), begin))

    def _wait(self, x: Any) -> None:
        jax = self._jax
        arrays = [
            leaf
            for leaf in self._leaves(x)
            if isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer) and not leaf.is_deleted()
        ]
        if arrays:
            jax.block_until_ready(arrays)

    def _leaves(self, x: Any) -> list[Any]:
        try:
            leaves: list[Any] = self._jax.tree_util.tree_leaves(x)
            return leaves
        except our_errors():  # a container that JAX cannot take apart, as a dict with keys of several types
            if isinstance(x, dict):
                x = list(x.values())
            return [leaf for part in x for leaf in self._leaves(part)] if isinstance(x, (list, tuple)) else []

    # --- segments ---------------------------------------------------------------------------------------------

    def _waiting(self, phase: str, function: str, dispatch: Dispatch, frame: FrameType) -> _Segment | None:
        """The segment that awaits this phase of this dispatch; those whose dispatch is over are closed."""
        stack = self._thread.open
        while stack and stack[-1].phase is None:
            segment = stack[-1]
            same = segment.jax_name == function or segment.dispatch is not None  # JAX words a name by the phase
            if same and (segment.next_phase, segment.dispatch) == (phase, dispatch.frame):
                return segment
            # a frame like the one that has ended may have its id; it is above us, and another's, only if it still runs
            if segment.dispatch != dispatch.frame and any(id(above) == segment.dispatch for above in frames(frame)):
                return None
            self._abandon()
        return None

    def _open(self, ns: int, phase: str, dispatch: Dispatch, function: str, frame: FrameType) -> _Segment:
        stack = self._thread.open
        self._internals.read(dispatch)
        compile = self._compile_of(phase, dispatch, self._describer.describe(dispatch, function, frame), frame)
        args = {"part": "forward", **compile.about, "parent": stack[-1].compile.id if stack else None}
        if self._internals.traced_before(dispatch.function):
            args["earlier"] = True
        nameless = dispatch.function is None and not compile.about["identity"]
        if nameless and _NAMELESS not in self._internals.missing:
            self._internals.missing.append(_NAMELESS)
            self._tell()
        if self._stale is not None:
            self._stale.look()
            if phase == TRACE and compile.about["origin"] == "user" and compile.captures is None:
                compile.captures = self._describer.captures(dispatch, self._stale.owner)
        if self._switched_off is not None:
            self._switched_off.compiles(compile.about)
        begin = Begin(ns, compile.about["function"], "jax", compile=compile.id, args=args)
        segment = _Segment(compile, begin, function, dispatch.frame)
        stack.append(segment)
        self._sink.emit(begin)
        self._sink.compile_opened()
        self._sink.wake()
        return segment

    def _close(self, ns: int, outcome: str, later: Callable[[], Args] | None = None, **args: Any) -> None:
        self._sink.emit(End(ns, self._thread.open.pop().begin, {"outcome": outcome, **args}, later))
        self._sink.compile_closed()

    def _abandon(self) -> None:
        """Close the innermost segment, whose next phase never came."""
        segment = self._thread.open[-1]
        # a dispatch that was seen had to go on, so something raised; of one that was not, nothing is known
        self._close(segment.phase_ended_ns, "failed" if segment.dispatch is not None else "traced_only")

    # --- compiles ---------------------------------------------------------------------------------------------

    def _compile_of(self, phase: str, dispatch: Dispatch, about: Args, frame: FrameType) -> _Compile:
        """The compile that this dispatch goes on with, where an earlier one made its program; else a new one."""
        program = _inner(dispatch.program)
        reference, earlier = self._programs.get(id(program), (None, None))
        if earlier is not None and reference is not None and reference() is program:
            if dispatch.function is None:
                about = earlier.about
            if earlier.is_of(about):
                return earlier
        compile = _Compile(self._sink.new_compile(), about)
        self._prospects.compiled(compile.id, about, dispatch, self._describer.callers(frame))
        trace, generation = self._traced.get(compile.signature() or 0, (None, 1))
        # the function still lives, so JAX would not trace it again but hold the trace, had its caches not been cleared
        compile.generation = generation + (phase == TRACE and trace is not None and trace() is None)
        return compile

    def _finished(self, compile: _Compile) -> None:
        compile.finished = True
        if compile.captures and self._stale is not None:
            about = compile.about
            self._stale.watch(compile.id, about["function"], about["identity"], compile.captures)

    def _keep_trace(self, compile: _Compile, frame: FrameType) -> None:
        signature, trace = compile.signature(), self._internals.traced(frame)
        if signature is not None and trace is not None:
            self._traced[signature] = weakref.ref(trace), compile.generation

    def _remember(self, program: Any, compile: _Compile) -> None:
        if program is not None:
            program = _inner(program)
            key = id(program)
            self._programs[key] = (weakref.ref(program, lambda _: self._programs.pop(key, None)), compile)

    def _caches(self, segment: _Segment, lookup: Lookup) -> list[Args]:
        """What the persistent cache did; nothing where that cannot be seen."""
        config = self._jax.config
        if segment.hit_cache:
            state = "hit"
        elif not (config.jax_enable_compilation_cache and config.jax_compilation_cache_dir):
            state = "off"
        elif self._sees_cache:
            state = "miss" if segment.asked_cache else "bypass"
        else:
            return []
        row: Args = {"layer": "xla.persistent", "state": state, "saved_ns": segment.saved_ns}
        return [row | lookup.args()]


def _inner(program: Any) -> Any:
    """What a jaxpr has within itself from its making on: before 0.9 the rest is put around it later."""
    return getattr(program, "jaxpr", program)
