"""PyTorch's private hooks and names: spans of the compiler, the frame being compiled, structured trace artifacts;
and where a guard looks (`looked_at`; what its words mean is read by `coldstep.analysis.dynamo_guards`).

Nothing here imports torch: modules are looked up where they are already imported, or handed in.
"""

from __future__ import annotations

import ast
import contextlib
import ctypes
import json
import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import CellType, CodeType, FrameType, FunctionType, MemberDescriptorType, ModuleType
from typing import Any, Protocol
from weakref import ref

from coldstep.blind_spots import BREAKS, COMPILES, PHASES, RECOMPILES, Unseen
from coldstep.clock import now
from coldstep.collector import Sink
from coldstep.events import KERNELS, Args, Begin, End
from coldstep_collectors.recording import MARK

SPANS_MODULE = "torch._dynamo.utils"
FRAMES_MODULE = "torch._dynamo.convert_frame"
REGIONS_MODULE = "torch._dynamo.eval_frame"
GRAPHS_MODULE = "torch._inductor.output_code"

FORWARD = "dynamo"
BACKWARD = ("entire_backward_compile", "compile_fx.<locals>.bw_compiler")
# PyTorch 2.13: "compile_attempt_1"
_RESTART = re.compile(r"compile_attempt_[1-9]\d*")
# PyTorch 2.9, 2.13: "torch_dynamo_resume_in_forward_at_20"
_RESUMED = re.compile(r"(.*?)torch_dynamo_resume_in_(.+)_at_(\d+)", re.DOTALL)

RECOMPILE_REASONS = "recompile_reasons"
BREAK_REASON = "dynamo_graph_break_reason"
FAILED = "dynamo_error"
IR_EVENTS = {
    "dynamo_output_graph": "fx",
    "aot_joint_graph": "aot_joint_graph",
    "aot_inference_graph": "aot_inference_graph",
    "inductor_output_code": "inductor_code",
}
"""The events whose payload is a program, and the form that it is in."""

WAIT = "async_compile.wait"
CUDA_GRAPHS = "inductor.cudagraphs"
"""The phase in which a compiled graph is not run but recorded, to be replayed from then on, or that is prepared."""
_PHASES = {
    FORWARD: "dynamo.trace",
    "bytecode_tracing": "dynamo.trace",
    "fullgraph_capture": "dynamo.trace",
    "build_guards": "dynamo.guards",
    "gc": "gc",
    "create_aot_dispatcher_function": "aot.joint",
    "aot_collect_metadata": "aot.joint",
    "aot_trace_joint_graph": "aot.joint",
    "min_cut_rematerialization_partition": "aot.partition",
    "entire_backward_compile": "aot.backward",
    "_recursive_pre_grad_passes": "inductor.passes",
    "_recursive_joint_graph_passes": "inductor.passes",
    "_recursive_post_grad_passes": "inductor.passes",
    "additional_fake_tensor_prop": "inductor.passes",
    "compile_fx.<locals>.fw_compiler_base": "inductor.lowering",
    "compile_fx.<locals>.bw_compiler": "inductor.lowering",
    "inductor_compile": "inductor.lowering",
    "fx_codegen_and_compile": "inductor.lowering",
    "GraphLowering.run": "inductor.lowering",
    "GraphLowering.compile_to_fn": "inductor.codegen",
    "code_gen": "inductor.codegen",
    "GraphLowering.codegen": "inductor.codegen",
    "GraphLowering.codegen_subgraph": "inductor.codegen",
    "Scheduler.__init__": "inductor.codegen",
    "Scheduler.fused_nodes": "inductor.codegen",
    "Scheduler.codegen": "inductor.codegen",
    "PythonWrapperCodegen.generate": "inductor.codegen",
    "PyCodeCache.load_by_key_path": "inductor.codegen",  # loads what was compiled, in a warm start probes for it first
    "CppWrapperCpu.generate": "inductor.codegen",
    "CppWrapperGpu.generate": "inductor.codegen",
    "compile_file": "inductor.cpp",
    "AotCodeCompiler.compile": "inductor.cpp",
    "aoti_precompile_header": "inductor.cpp",
    "async_compile.precompile": "inductor.triton",
    "reload_kernel_in_parent": "inductor.triton",
    "StaticAutotunerFuture.warm_precompile": "inductor.triton",
    "benchmark_fused_nodes": "inductor.triton",
    "benchmark_codegened_module": "inductor.triton",
    "inductor_codecache_torch_key": "inductor.cache",
    "CacheBase.get_system.triton_key": "inductor.cache",
    "AOTAutogradCache.inductor_load": "inductor.cache",
    "CompiledArtifact.load": "inductor.cache",
    "CompiledArtifact.save": "inductor.cache",
    "TritonBundler.collect": "inductor.cache",
    "TritonBundler.read_and_emit": "inductor.cache",
    "TritonBundler.load_cached_static_autotuners": "inductor.cache",
    "cudagraphify.get_container": CUDA_GRAPHS,
    "CUDAGraphNode.record": CUDA_GRAPHS,
}
_PHASE_PREFIXES = {
    "pass.": "inductor.passes",
    "fx.bucketing.": "inductor.passes",
    "CachingAutotuner.": "inductor.triton",
    "CUTLASSGemmTemplate.": "inductor.triton",
}
_PHASE_SUFFIXES = {"_template_autotuning": "inductor.triton", "_template_precompiling": "inductor.triton"}

FX_GRAPH, AOT_AUTOGRAD = "inductor.fx_graph", "aot.autograd"
_BACKEND = ("inductor_compile", "AOTAutogradCache.inductor_load")
_CACHE_LAYERS = {"fx_graph_cache_": FX_GRAPH, "autograd_cache_": AOT_AUTOGRAD}
_CACHE_STATES = {"hit": "hit", "miss": "miss", "bypass": "bypass", "disabled": "off"}


def phase_of(name: str) -> str | None:
    """The ledger's phase for a span; None for a span that is not known: its time stays with what encloses it."""
    phase = _PHASES.get(name)
    if phase is None:
        for affixes, matches in ((_PHASE_PREFIXES, name.startswith), (_PHASE_SUFFIXES, name.endswith)):
            for affix, found in affixes.items():
                if matches(affix):
                    return found
    return phase


def part_of(name: str) -> str | None:
    """Which part of a compile a span is: forward, backward, attempt (of a restart), or None."""
    if name == FORWARD:
        return "forward"
    if name in BACKWARD:
        return "backward"
    return "attempt" if _RESTART.fullmatch(name) else None


def resumed(qualname: str) -> tuple[str, int] | None:
    """The function and line at which a resume frame goes on after a graph break; None for any other frame."""
    match = _RESUMED.fullmatch(qualname)
    return (match[1] + match[2], int(match[3])) if match else None


# --- hooks that can be put back -------------------------------------------------------------------------------


class Patch:
    """An attribute of torch's that is ours until `undo()`."""

    def __init__(self, owner: Any, name: str, value: Any) -> None:
        self._owner, self._name, self._value = owner, name, value
        self._own = name in vars(owner)
        self._old = getattr(owner, name)
        setattr(owner, name, value)

    def undo(self) -> str | None:
        """Put back what was there; if somebody else has put another over ours, leave it, and say so."""
        owner, name = self._owner, self._name
        if vars(owner).get(name) is not self._value:
            return f"{name} of {owner!r:.100}, which somebody else has wrapped"
        if self._own:
            setattr(owner, name, self._old)
        else:
            delattr(owner, name)
        return None


# --- the frame being compiled ---------------------------------------------------------------------------------


@dataclass(slots=True)
class CompilingFrame:
    """The user's frame that Dynamo is about to compile. Live objects: for use inside the hook only."""

    code: CodeType
    values: Mapping[str, Any]
    caller: FrameType | None
    """The innermost Python frame below torch's compiler."""
    fullgraph: bool | None
    frame_id: int
    frame_compile_id: int
    globals: Mapping[str, Any]
    wrapped: Any = None
    """What the user gave to torch.compile, where the frame is only Dynamo's wrapper around it."""


def unseen_frames(module: ModuleType) -> list[str]:
    """What `compiling_frame`, `symbols`, `falls_back` and `Spans.remembered` will not find in this version of
    PyTorch."""
    missing: list[str] = []
    code = getattr(getattr(module, "_compile", None), "__code__", None)
    names = {*code.co_varnames, *code.co_cellvars} if code is not None else set()
    if not {"code", "locals", "compile_id"} <= names:
        words = "which functions compile, and with what inputs (this version of PyTorch compiles in another way)"
        return [Unseen(words, COMPILES, RECOMPILES, BREAKS)]
    if not names & _TRACED_BY:
        missing.append(Unseen("which dimensions and numbers a graph leaves open"))
    if "one_graph" not in names:
        missing.append(Unseen("whether a function may only be one graph (fullgraph=True)"))
    if "globals" not in names:
        missing.append(Unseen("the global variables that a guard looks at"))
    if not hasattr(getattr(sys.modules.get("torch._guards"), "CompileContext", None), "try_get"):
        missing.append(Unseen("which forward a backward that is compiled later belongs to"))
    return missing


def compiling_frame() -> CompilingFrame | None:
    """What the innermost frame compile on this thread's stack is compiling."""
    frame = _compiler_frame()
    if frame is None:
        return None
    found = frame.f_locals
    code, values, compile_id = found.get("code"), found.get("locals"), found.get("compile_id")
    if not isinstance(code, CodeType) or not isinstance(values, Mapping):
        return None
    is_wrapper = code.co_name == "inner" and code.co_filename.endswith("external_utils.py")
    return CompilingFrame(
        code,
        values,
        frame.f_back,
        bool(found["one_graph"]) if "one_graph" in found else None,
        getattr(compile_id, "frame_id", None) or 0,
        getattr(compile_id, "frame_compile_id", None) or 0,
        found.get("globals") or {},
        values.get("fn") if is_wrapper else None,
    )


def modes(torch: Any) -> dict[str, str]:
    """Settings of the framework that guards look at, by the name that a guard that fails gives them."""
    settings = {
        "default_dtype": ("get_default_dtype", torch),
        "num_threads": ("get_num_threads", torch),
        "deterministic_algorithms": ("are_deterministic_algorithms_enabled", torch),
        "allow_tf32": ("_get_cublas_allow_tf32", torch._C),
    }
    found = {name: str(getattr(owner, get)()) for name, (get, owner) in settings.items() if hasattr(owner, get)}
    stack = getattr(torch.overrides, "_get_current_function_mode_stack", None)
    if stack is not None:
        found["torch_function_modes"] = ", ".join(type(mode).__qualname__ for mode in stack()) or "none"
    return found


_MARKS = {"_dynamo_dynamic_indices": "dynamic", "_dynamo_weak_dynamic_indices": "maybe dynamic",
          "_dynamo_unbacked_indices": "unbacked", "_dynamo_static_indices": "static"}  # fmt: skip


def marks(tensor: Any) -> str:
    """What `mark_dynamic` and its like have said of a tensor: "dimension 0 dynamic", empty for nothing."""
    own = object.__getattribute__(tensor, "__dict__")
    found = []
    for name, words in _MARKS.items():
        if isinstance(dimensions := own.get(name), set) and dimensions:
            found.append(f"dimension {', '.join(str(d) for d in sorted(dimensions))} {words}")
    return ", ".join(found)


def is_result(tensor: Any) -> bool:
    """Whether a compiled function had returned `tensor`, as far as its history tells."""
    return type(tensor.grad_fn).__name__ == "CompiledFunctionBackward"


_REGION = "_TorchDynamoContext.__call__.<locals>."
"""In the qualified name of what torch.compile returns: its last part differs from version to version."""


def unseen_regions(module: ModuleType) -> list[str]:
    """What `region` will not find in this version of PyTorch."""
    makes = vars(getattr(module, "_TorchDynamoContext", object)).get("__call__")
    made = getattr(getattr(makes, "__code__", None), "co_consts", ())
    if any(isinstance(code, CodeType) and "fn" in code.co_freevars for code in made):
        return []
    return [Unseen("whether a library's function that compiles is compiled for the program")]


def region(frame: CompilingFrame) -> tuple[Any, FrameType | None]:
    """What was given to torch.compile, of which the compiled frame is a part, and who called that."""
    above = frame.caller
    while above is not None:
        code = above.f_code
        is_region = code.co_qualname.startswith(_REGION) and code.co_filename.endswith("eval_frame.py")
        if is_region and "fn" in code.co_freevars:
            return above.f_locals.get("fn"), above.f_back
        above = above.f_back
    return None, None


def falls_back(error: BaseException) -> bool:
    """Whether Dynamo, giving up the frame it compiles with `error`, lets it run uncompiled; else the user sees it."""
    if not isinstance(error, Exception):
        return False
    frame = _compiler_frame()
    found = frame.f_locals if frame is not None else {}
    if found.get("one_graph") or getattr(found.get("convert_frame_box"), "error_on_graph_break", False):
        return False
    suppressed = getattr(sys.modules.get("torch._dynamo.config"), "suppress_errors", False)
    return bool(suppressed) or any(base.__name__ in ("Unsupported", "UserError") for base in type(error).__mro__)


def given_up(error: BaseException | None) -> str | None:
    """Why Dynamo will never look at the code it compiles now again, nor at what it has compiled of it, "" where it does
    not say; None if it may.

    Empty graphs and errors that are suppressed both do that to all of a function, whatever variants it has.
    """
    if error is not None:
        return str(error) if falls_back(error) and getattr(error, "frame_exec_strategy", None) is None else None
    frame = _compiler_frame()
    returned = frame.f_locals.get("guarded_code") if frame is not None else None
    if returned is not None and not hasattr(returned, "skip_reason"):  # before PyTorch 2.10
        strategy = getattr(returned, "frame_exec_strategy", None)
        is_skip = getattr(getattr(strategy, "cur_action", None), "name", None) == "SKIP"
        return "" if is_skip and getattr(returned, "apply_to_code", False) else None
    reason = getattr(returned, "skip_reason", None)
    return reason if isinstance(reason, str) else None


# PyTorch 2.9, 2.13: "L['x'].size()[0]"
_SIZE = re.compile(r"(.+)\.size\(\)\[(\d+)\]")
_TRACED_BY = {"tracer_output", "output"}  # the second before PyTorch 2.9


def symbols() -> list[tuple[str, int | None]] | None:
    """What the graph that was just traced leaves open: PyTorch's expression for a tensor and its dimension, or for a
    number and None. What a guard pins to one value is not among it. None where that cannot be seen."""
    frame = _compiler_frame()
    names = frame.f_locals if frame is not None else {}
    graph = getattr(names.get("tracer_output"), "output_graph", None) or names.get("output")
    shapes = getattr(graph, "shape_env", None)
    all_symbols, pinned = getattr(shapes, "var_to_sources", None), getattr(shapes, "replacements", None)
    if not isinstance(all_symbols, Mapping) or not isinstance(pinned, Mapping):
        return None
    found: list[tuple[str, int | None]] = []
    for symbol, sources in all_symbols.items():
        if getattr(pinned.get(symbol), "is_number", False):
            continue
        for source in sources:
            name = getattr(source, "name", None)
            text = name() if callable(name) else name
            if isinstance(text, str):
                size = _SIZE.fullmatch(text)
                found.append((size[1], int(size[2])) if size else (text, None))
    return found


# PyTorch 2.9, 2.13: "FailOnRecompileLimitHit"
# PyTorch 2.9: "RecompileLimitExceeded"
_LIMIT = re.compile(r"(?:FailOn)?(?:Recompile|Cache)Limit(?:Exceeded|Hit)")
# PyTorch 2.13: "Dynamo recompile limit exceeded"
# PyTorch 2.9: "recompile_limit reached"
_LIMITED = re.compile(r"(?:recompile|cache) limit exceeded|(?:recompile|cache_size)_limit reached")


def is_limit(metadata: Mapping[str, Any], error: BaseException | None) -> bool:
    """Whether a compile was refused because there are too many variants of its function."""
    kinds = type(error).__name__, str(metadata.get("fail_type"))
    if any(_LIMIT.fullmatch(kind) for kind in kinds):
        return True
    return _LIMITED.search(str(metadata.get("fail_reason"))) is not None


def is_hard_limit(metadata: Mapping[str, Any], error: BaseException | None) -> bool:
    """Whether it was, and the call failed of it (fullgraph=True)."""
    kinds = type(error).__name__, str(metadata.get("fail_type"))
    return any(_LIMIT.fullmatch(kind) and kind.startswith("Fail") for kind in kinds)


def _compiler_frame() -> FrameType | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_name == "_compile" and code.co_filename.endswith("convert_frame.py"):
            return frame
        frame = frame.f_back
    return None


def recompile_limit() -> int | None:
    """How many variants of one function Dynamo allows now."""
    config = sys.modules.get("torch._dynamo.config")
    limit = getattr(config, "recompile_limit", None) or getattr(config, "cache_size_limit", None)
    return limit if isinstance(limit, int) else None


def has_compiled() -> bool | None:
    """Whether anything has been compiled in this process; None when that cannot be known."""
    utils = sys.modules.get(SPANS_MODULE)
    if utils is None:
        return False
    times = getattr(utils, "compilation_time_metrics", None)
    return None if times is None else bool(times)


def plain_tensors(torch: Any) -> contextlib.AbstractContextManager[object]:
    """A context in which reading a tensor's attributes runs no `__torch_function__` of the user's own."""
    disable = getattr(torch._C, "DisableTorchFunction", None)
    return disable() if disable is not None else contextlib.nullcontext()


# --- spans ----------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Compile:
    """A frame's compile, for as long as PyTorch may go on with it: its backward can come much later."""

    id: str
    function: str
    frame: tuple[str, str]
    """File and name of the frame that is compiled, as PyTorch knows it."""
    failures: list[str] = field(default_factory=list)
    """Why each earlier variant was not good enough, in PyTorch's words."""
    guarded: dict[str, Args] = field(default_factory=dict)
    """What is now where those words look."""
    breaks: dict[tuple[str, int], str] = field(default_factory=dict)
    """The graph breaks met, by place."""
    outcome: str = "compiled"
    inductor: bool = False
    """Inductor has compiled or loaded something for it."""
    caches: dict[tuple[str, str], int | None] = field(default_factory=dict)

    def add_cache(self, layer: str, state: str, saved_ns: int | None) -> None:
        """One more answer of a disk cache; equal ones are one row, what they saved is summed."""
        before = self.caches.get((layer, state))
        self.caches[layer, state] = saved_ns if before is None else before + (saved_ns or 0)

    def cache_rows(self) -> list[Args]:
        """The caches as a compile's arguments list them."""
        return [
            {"layer": layer, "state": state, "saved_ns": saved_ns} for (layer, state), saved_ns in self.caches.items()
        ]


@dataclass(slots=True, eq=False)
class Segment:
    """An open stretch of a compile on this thread."""

    compile: Compile
    part: str
    whole: bool
    """Not within another segment of the same compile: its end says how the compile ended."""
    outermost: bool
    handling: int
    """id of the exception that was being handled when it began: not its own."""


class Segments(Protocol):
    """Whoever makes compiles out of spans. Both methods are called inside the hook, and must not raise."""

    def open(self, part: str, enclosing: Segment | None) -> tuple[Segment, Args] | None:
        """A span begins that is a part of a compile, within `enclosing`."""

    def close(self, segment: Segment, metadata: Mapping[str, Any] | None) -> Args | None:
        """The end of what `open` returned; `metadata` is the span's, None when its end was never announced."""


@dataclass(slots=True, eq=False)
class _Span:
    begin: Begin
    segment: Segment | None
    around: Begin | None
    """The segment's own slice."""


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
        self.segments: Segments | None = None
        self.missing: list[str] = []

    def current(self) -> Segment | None:
        """The innermost open segment on this thread."""
        return next((span.segment for span in reversed(self._thread.open) if span.segment), None)

    def join(self, collector: str, changed: Callable[[], None]) -> None:
        """`collector` wants the spans; `changed()` is called when `missing` has grown."""
        first = not self._members
        self._members[collector] = changed
        if first:
            self._begin = self._sink.guarded(collector, self._on_begin)
            self._instant = self._sink.guarded(collector, self._on_instant)
            self._sink.when_imported(SPANS_MODULE, self._install)

    def tell(self, collector: str, torch: Any, late: bool | None, missing: list[str]) -> None:
        """Say how `collector` is attached: what it misses is missing besides the spans; `late` as `has_compiled`."""
        missing = [*missing, *self.missing]
        if late is None:
            missing.append(Unseen("whether anything was compiled before the trace"))
        state = "late" if late or late is None else "partial" if missing else "attached"
        self._sink.state(collector, state, getattr(torch, "__version__", None), missing)

    def leave(self, collector: str) -> list[str]:
        """`collector` is done; the last one puts everything back."""
        global _shared
        self._members.pop(collector, None)
        if self._members:
            return []
        if _shared is self:
            _shared = None
        left = [words for patch in reversed(self._patches) if (words := patch.undo()) is not None]
        self._patches.clear()
        self._compiles.clear()
        self._ids.clear()
        return left

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
        """One event of PyTorch's: a span's begin ("B") or end ("E"), or an instant ("i")."""
        if kind == "B":
            self._begin(name)
        elif kind == "E":
            # not behind the circuit breaker: what began before a failure must end, or it would own all time to come
            with contextlib.suppress(Exception):
                self._on_end(name, metadata or {})
        elif kind == "i":
            self._instant(name, metadata or {})

    def _install(self, utils: ModuleType) -> None:
        make_logger = getattr(utils, "get_chromium_event_logger", None)
        # made as the first compile would make it, so that what torch keeps in it outlives our coming and going
        logger: Any = make_logger() if make_logger is not None else None
        if not hasattr(logger, "_log_timed_event") or not hasattr(logger, "log_instant_event"):
            words = "compile phases (this version of PyTorch announces its spans in another way)"
            self.missing.append(Unseen(words, COMPILES, RECOMPILES, BREAKS, PHASES))
            for changed in self._members.values():
                changed()
            return
        timed, instant, event = logger._log_timed_event, logger.log_instant_event, self.event

        def log_timed_event(name: str, ns: int, kind: str, metadata: Any = None) -> Any:
            event(kind, name, metadata)
            return timed(name, ns, kind, metadata)

        def log_instant_event(name: str, ns: int, metadata: Any = None, *args: Any, **kwargs: Any) -> Any:
            event("i", name, metadata)
            return instant(name, ns, metadata, *args, **kwargs)

        self._patches += [
            Patch(logger, "_log_timed_event", log_timed_event),
            Patch(logger, "log_instant_event", log_instant_event),
        ]

    def _on_begin(self, name: str) -> None:
        ns = now()
        part = part_of(name)
        enclosing = self.current()
        found = self.segments.open(part, enclosing) if part is not None and self.segments is not None else None
        segment, around = None, None
        if found is not None:
            segment, args = found
            compile = segment.compile
            title = compile.function if part == "forward" else f"{compile.function} {part}"
            around = Begin(ns, title, "torch", None, compile.id, args)
        if name in _BACKEND and enclosing is not None:
            enclosing.compile.inductor = True
        if name == WAIT:
            phase, kernels = _waits_for()
            begin = Begin(ns, name, "torch", phase, args={KERNELS: kernels})
        else:
            begin = Begin(ns, name, "torch", phase_of(name))
        self._thread.open.append(_Span(begin, segment, around))
        if around is not None:
            self._sink.emit(around)
        self._sink.emit(begin)
        if segment is not None and segment.outermost:
            self._sink.compile_opened()
            self._sink.wake()

    def _on_end(self, name: str, metadata: Mapping[str, Any]) -> None:
        stack = self._thread.open
        if not any(span.begin.name == name for span in stack):
            return
        ns, mine = now(), False
        while not mine:
            span = stack.pop()
            mine = span.begin.name == name
            self._sink.emit(End(ns, span.begin))
            if span.segment is not None and span.around is not None:
                args = self.segments.close(span.segment, metadata if mine else None) if self.segments else None
                self._sink.emit(End(ns, span.around, args))
                if span.segment.outermost:
                    self._sink.compile_closed()

    def _on_instant(self, name: str, metadata: Mapping[str, Any]) -> None:
        segment = self.current()
        if segment is not None and (said := cache_answer(name, metadata)) is not None:
            segment.compile.add_cache(*said)


def cache_answer(name: str, metadata: Mapping[str, Any]) -> tuple[str, str, int | None] | None:
    """What an instant tells of a cache on disk: the layer, what it said, and the time that it saved."""
    for prefix, layer in _CACHE_LAYERS.items():
        if name.startswith(prefix) and (state := _CACHE_STATES.get(name.removeprefix(prefix))) is not None:
            return layer, state, _saved_ns(metadata)
    return None


_shared: Spans | None = None


def spans(sink: Sink) -> Spans:
    """The spans of the session behind `sink`, shared by the collectors that ask for them."""
    global _shared
    if _shared is None or _shared._sink is not sink:
        _shared = Spans(sink)
    return _shared


def _compile_context() -> Any:
    context = getattr(sys.modules.get("torch._guards"), "CompileContext", None)
    try_get = getattr(context, "try_get", None)
    return try_get() if try_get is not None else None


def loaded_graphs(metadata: Mapping[str, Any]) -> bool:
    """Whether a span's metadata counts graphs that Inductor loaded from its cache on disk."""
    return bool(metadata.get("inductor_fx_local_cache_hit_count") or metadata.get("inductor_fx_remote_cache_hit_count"))


def _saved_ns(metadata: Mapping[str, Any]) -> int | None:
    for key, unit in (("time_saved_ns", 1), ("time_saved_ms", 1_000_000)):
        value = metadata.get(key)
        if isinstance(value, (int, float)):
            return round(value * unit)
    return None


def _waits_for() -> tuple[str, int]:
    """What the owner waits for in `AsyncCompile.wait`, the kernels that the generated module has asked for: how they
    are compiled, and how many they are."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_name == "wait" and code.co_filename.endswith("async_compile.py"):
            scope = frame.f_locals.get("scope")
            made = scope.items() if isinstance(scope, dict) else ()
            kernels = [str(name) for name, value in made if hasattr(type(value), "result")]  # futures
            triton = any(name.startswith("triton_") for name in kernels)
            return "inductor.triton" if triton else "inductor.cpp", len(kernels)
        frame = frame.f_back
    return "inductor.cpp", 0


def cache_is_off(layer: str) -> bool:
    """Whether the configuration turns a disk cache off."""
    inductor = sys.modules.get("torch._inductor.config")
    if getattr(inductor, "force_disable_caches", False):
        return True
    module, option = {
        FX_GRAPH: (inductor, "fx_graph_cache"),
        AOT_AUTOGRAD: (sys.modules.get("torch._functorch.config"), "enable_autograd_cache"),
    }[layer]
    return not getattr(module, option, True)


# --- structured trace -----------------------------------------------------------------------------------------


class Artifacts(logging.Handler):
    """Receives the two artifacts of PyTorch's structured trace that we want, and makes it compute no others; and
    programs, where the trace asks for them.

    Any handler on that logger makes PyTorch render megabytes of graphs. It asks first whether the list of handlers
    is empty; ours is a list that answers per artifact.
    """

    def __init__(self, wanted: Callable[[str, str], None], spans: Spans, sink: Sink) -> None:
        super().__init__()
        self._wanted = wanted
        self._spans = spans
        self._sink = sink
        self._rendering: dict[int, Begin] = {}
        self._patch: Patch | None = None
        self._logger = logging.getLogger("torch.__trace")

    def install(self) -> str | None:
        """Attach; returns what will not be seen, if anything."""
        internal = sys.modules.get("torch._logging._internal")
        emitter = getattr(internal, "trace_structured", None)
        code = getattr(emitter, "__code__", None)
        if getattr(internal, "trace_log", None) is not self._logger:
            return Unseen("graph breaks and guard failures (this version of PyTorch has no structured trace)", BREAKS)
        names = ("name", "metadata_fn")
        if code is not None and "handlers" in code.co_names and all(name in code.co_varnames for name in names):
            self._patch = Patch(self._logger, "handlers", _Selective(self, code, self._logger.handlers))
        else:  # dearer, since everything is rendered, but complete; in front, for torch's own may leave the list
            self._logger.handlers.insert(0, self)
        return None

    def remove(self) -> str | None:
        """Detach, and leave the other handlers where they are, those that came since included."""
        patch, self._patch = self._patch, None
        handlers = self._logger.handlers
        left = None
        if patch is not None:
            others = [handler for handler in handlers if handler is not self]
            left = patch.undo()
            if left is None:
                self._logger.handlers[:] = others
        self._logger.removeHandler(self)
        return left

    def handle(self, record: logging.LogRecord) -> Any:
        """A record of the structured trace; takes no lock, for compiler threads emit here too."""
        metadata = getattr(record, "metadata", None)
        payload = getattr(record, "payload", None)
        if not isinstance(metadata, dict) or not isinstance(payload, str):
            return
        artifact = metadata.get("artifact")
        if isinstance(artifact, dict):
            if artifact.get("name") in (RECOMPILE_REASONS, BREAK_REASON):
                self._wanted(artifact["name"], payload)
        elif self._sink.ir and (name := next((name for name in IR_EVENTS if name in metadata), None)) is not None:
            if (begin := self._rendering.pop(threading.get_ident(), None)) is not None:
                self._sink.emit(End(now(), begin))
            self._wanted(name, payload)
        elif "chromium_event" in metadata and self._spans.missing:
            with contextlib.suppress(ValueError):
                event = json.loads(payload)
                self._spans.event(event["ph"], event["name"], event.get("args"))

    def wants(self, name: str, metadata: Callable[[], Any]) -> bool:
        """Whether an event is for us."""
        if name == "artifact":
            return metadata().get("name") in (RECOMPILE_REASONS, BREAK_REASON)
        if name in IR_EVENTS and self._sink.ir:
            # PyTorch renders it between this question and `handle`
            begin = self._rendering[threading.get_ident()] = Begin(now(), IR_EVENTS[name], "coldstep", "coldstep")
            self._sink.emit(begin)
            return True
        return name == "chromium_event" and bool(self._spans.missing)


class _Selective(list[logging.Handler]):
    """A logger's handlers, ours in front; is empty for `emitter`'s events that nobody in it wants."""

    def __init__(self, ours: Artifacts, emitter: CodeType, others: list[logging.Handler]) -> None:
        super().__init__([ours, *others])
        self._ours = ours
        self._emitter = emitter

    def __bool__(self) -> bool:
        for handler in self:
            # torch's own handler with nowhere to write to leaves the list at the first event
            if handler is not self._ours and getattr(handler, "root_dir", self) is not None:
                return True
        caller = sys._getframe(1)
        if caller.f_code is not self._emitter:
            return False  # as it would be without us
        try:
            found = caller.f_locals
            return self._ours.wants(found["name"], found["metadata_fn"])
        except Exception:
            return False


def recompile_reasons(payload: str) -> list[str]:
    """The framework's words, newest variant first."""
    if payload.startswith("["):
        with contextlib.suppress(ValueError):
            return [str(reason) for reason in json.loads(payload)]
    return [payload]


@dataclass(slots=True)
class BreakReason:
    """What PyTorch says of a graph break. `stack` is (file, line, function), outermost first, inlined frames last."""

    reason: str
    hints: list[str]
    stack: list[tuple[str, int, str]]
    whole_frame: bool
    """The frame was not cut in two but given up."""
    skipped_file: str | None = None
    """The file of the function that PyTorch does not look into, which is seldom that of the innermost frame."""
    inlined: int | None = None
    """How many of the stack's frames are those of the compiled function and of what was inlined in it, if known."""


# PyTorch 2.9, 2.13: "Graph break in user code at /repo/train.py:10"
_BREAK_AT = re.compile(r"Graph break in user code at (.{1,1000}):(\d+)")
# PyTorch 2.9, 2.13: "  File "/repo/train.py", line 10, in forward"
_STACK_FRAME = re.compile(r'^ *File "(.+)", line (\d+), in (.+)$', re.MULTILINE)
_INTERNAL = "Traceback (most recent call last)"
# PyTorch 2.9, 2.13: "User code traceback:"
_USER_STACK = re.compile(r"^(?:User code traceback|from user code|The graph break occurred in .*):.*$", re.MULTILINE)
# PyTorch 2.13: "Encountered graph break when attempting to trace CALL: a function call, e.g. f(x, y):\n\n"
_PREAMBLES = re.compile(r"Encountered graph break [^\n]*:\n+|.*?Graph break encountered:\n+", re.DOTALL)
# PyTorch 2.9, 2.13: "\n  Developer debug context: "
_SECTIONS = re.compile(r"\n[ \t]*(?:Developer debug context:|For more details about this graph break)", re.DOTALL)
# PyTorch 2.9, 2.13: "Dynamo developers have intentionally marked that the function `dumps` in file
# `/usr/lib/python3.11/json/__init__.py` should not be traced."
_SKIPPED = re.compile(r"in file `([^`]+)` should not be traced")
# PyTorch 2.9, 2.13: "  Hint: Please report an issue to PyTorch."
_HINT = re.compile(r"^ *Hint: (.+?)(?=\n *Hint: |\n\s*\n|\Z)", re.MULTILINE | re.DOTALL)


def break_reason(payload: str) -> BreakReason | None:
    """Take the text of a graph break apart; what is not recognized ends up in `reason` as it is.

    None for the announcement of a failure that becomes a graph break, and says so, next.
    """
    if payload.startswith("WON'T CONVERT"):
        return None
    text = payload.partition(_INTERNAL)[0]
    split = _USER_STACK.search(text)
    said, below = (text[: split.start()], text[split.end() :]) if split else (text, text)
    stack = [(file, int(line), function) for file, line, function in _STACK_FRAME.findall(below)]
    if not stack and (at := _BREAK_AT.search(text)):
        stack = [(at[1], int(at[2]), "")]
    said = said.partition("Graph Break Reason:")[2] or said
    whole = "kipping the function" in said or "skip tracing the frame" in said or "graph break in loop" in said
    match = _PREAMBLES.match(said.lstrip())
    said = said.lstrip()[match.end() :] if match else said.strip()
    said = _SECTIONS.split(said, maxsplit=1)[0]
    hints = [_one_line(hint) for hint in _HINT.findall(said)]
    first = re.split(r"^ *Hint: ", said, maxsplit=1, flags=re.MULTILINE)[0]
    what, _, why = first.partition("Explanation:")
    what, why = _one_line(what), _one_line(why.split("\n\n", 1)[0])
    skipped = _SKIPPED.search(why)
    return BreakReason(f"{what}: {why}" if why else what, hints, stack, whole, skipped[1] if skipped else None)


def failed_in(payload: str) -> list[tuple[str, int, str]]:
    """The compiled function and what was inlined in it, by the words on an error that ended a compile."""
    below = payload.rpartition("from user code:")[2].partition("\n\n")[0]
    return [(file, int(line), function) for file, line, function in _STACK_FRAME.findall(below)]


def joined(stack: Iterable[tuple[str, int, str]]) -> list[tuple[str, int, str]]:
    """A stack with what goes on after a graph break in the place, and by the name, of the function that goes on."""
    found: list[tuple[str, int, str]] = []
    for file, line, function in stack:
        went_on = resumed(function)
        name = went_on[0] if went_on else function
        if went_on and found and (found[-1][0], found[-1][2]) == (file, name):
            found.pop()
        found.append((file, line, name))
    return found


def complete_stack(said: BreakReason) -> None:
    """Put what PyTorch's words leave out into the stack of the graph break whose error is being handled: all but the
    innermost of functions that call each other and have one name, as a user's `forward` and a library's."""
    traced = getattr(sys.exc_info()[1], "real_stack", None)
    frame = compiling_frame()
    if not traced or frame is None or not said.stack:
        return
    inner = [(summary.filename, summary.lineno or 0, summary.name) for summary in traced]
    if inner[-1][:2] != said.stack[-1][:2]:
        return
    inner[0] = (*inner[0][:2], frame.code.co_name)
    above: list[tuple[str, int, str]] = []
    caller = frame.caller
    compiler = os.path.dirname(caller.f_code.co_filename) if caller is not None else ""
    while caller is not None:
        file = caller.f_code.co_filename
        if above or os.path.dirname(file) != compiler:
            above.append((file, caller.f_lineno or 0, caller.f_code.co_name))
        caller = caller.f_back
    said.stack, said.inlined = joined([*above[::-1], *inner]), len(inner)


def _one_line(text: str) -> str:
    return " ".join(text.split())


# --- where a guard looks --------------------------------------------------------------------------------------


@dataclass(slots=True)
class Place:
    """A value that a guard looks at, live: for use inside the hook only."""

    value: Any
    argument: str
    """Its path as the user wrote it."""
    kind: str
    """argument | attribute | global | closure | call | optimizer | optimizer_state | gradient"""


# PyTorch 2.9, 2.13: "tensor 'x' size mismatch at index 0. expected 4, actual 5"
_NAME = re.compile(r"[A-Za-z_]\w*")
# PyTorch 2.9, 2.13: "___stack0"
_STACK_SLOT = re.compile(r"___stack(\d+)")
# PyTorch 2.9, 2.13: "__import_torch_dot_nn_dot_modules_dot_module"
_IMPORTED = re.compile(r"__import_(.+)")
# PyTorch 2.9, 2.13: "0/0: not ___dict_contains('scale', self.__dict__)"
_ABSENT = re.compile(r"\S+ not ___dict_contains\('(\w+)', (.+)\.__dict__\)")
_HELD_BY_MODULES = ("_modules", "_parameters", "_buffers")
_HELD_BY_FUNCTIONS = ("__closure__", "__code__", "__defaults__", "__kwdefaults__")


def looked_at(reason: str) -> Iterator[str]:
    """The expressions in a guard's words that may lead to a value, the longest ones."""
    words = reason.partition("\nUser stack trace:")[0].partition("  # ")[0]
    at = 0
    while match := _NAME.search(words, at):
        end = match.end()
        while end < len(words):
            if (
                words[end] == "."
                and (name := _NAME.match(words, end + 1))
                and words[name.end() : name.end() + 1] != "("
            ):
                end = name.end()
            elif words[end] == "[" and (closed := _closing(words, end)):
                end = closed
            else:
                break
        path = words[match.start() : end]
        for own in _HELD_BY_FUNCTIONS:  # the function itself is what differs
            path = path.removesuffix(f".{own}")
        yield path
        at = end
    if absent := _ABSENT.match(words):
        yield f"{absent[2]}.{absent[1]}"


def _closing(words: str, at: int) -> int | None:
    """The position after the bracket that closes the one at `at`."""
    depth, quote = 0, ""
    for position in range(at, len(words)):
        letter = words[position]
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "[]":
            depth += 1 if letter == "[" else -1
            if not depth:
                return position + 1
    return None


class Scope:
    """What a frame's guards can see. Follows a path by names, own attributes, keys and positions: no user code runs."""

    def __init__(self, torch: Any, frame: CompilingFrame, parameters: tuple[str, ...]) -> None:
        self._torch = torch
        self._frame = frame
        self._parameters = parameters

    def find(self, path: str) -> Place | None:
        """The value at `path`, in PyTorch's words; None where there is none, or no way without running code."""
        try:
            return self._find(ast.parse(path, mode="eval").body)
        except (SyntaxError, ValueError, KeyError, IndexError, AttributeError, TypeError, RecursionError):
            return None

    def _find(self, node: ast.expr) -> Place | None:
        if isinstance(node, ast.Name):
            return self._name(node.id)
        if isinstance(node, ast.Attribute):
            holder = self._find(node.value)
            return self._attribute(holder, node.attr) if holder is not None else None
        if not isinstance(node, ast.Subscript):
            return None
        if isinstance(node.value, ast.Name) and node.value.id in ("G", "L") and isinstance(node.slice, ast.Constant):
            name = str(node.slice.value)
            return self._global(name) if node.value.id == "G" else self._name(name)
        if isinstance(node.value, ast.Attribute) and isinstance(node.slice, ast.Constant):
            holder = self._find(node.value.value)
            if holder is not None and (found := self._held(holder, node.value.attr, node.slice.value)) is not None:
                return found
        holder = self._find(node.value)
        return self._item(holder, node.slice) if holder is not None else None

    def _name(self, name: str) -> Place | None:
        frame = self._frame
        if name not in frame.values:
            return None
        value = frame.values[name]
        if frame.wrapped is not None and name in ("fn", "args", "kwargs"):
            return Place(value, "self" if name == "fn" else name, "argument" if name == "fn" else "call")
        if name in frame.code.co_freevars:
            return Place(value, name, "closure")
        if self._is_optimizer(value) and name == "self":
            return Place(value, "optimizer", "argument")
        slot = _STACK_SLOT.fullmatch(name)
        rest = frame.code.co_flags & 8 and name == rest_names(frame.code)[-1]
        return Place(value, f"<intermediate {slot[1]}>" if slot else name, "call" if rest else "argument")

    def _global(self, name: str) -> Place:
        module = _IMPORTED.fullmatch(name)
        return Place(self._frame.globals[name], module[1].replace("_dot_", ".") if module else name, "global")

    def _attribute(self, holder: Place, name: str) -> Place | None:
        value = holder.value
        path = f"{holder.argument}.{name}"
        if isinstance(value, ModuleType):
            return Place(vars(value)[name], name, "global")
        if type(value) is CellType and name == "cell_contents":
            return Place(value.cell_contents, holder.argument, "closure")
        if isinstance(value, FunctionType) and name in _HELD_BY_FUNCTIONS:
            return Place(getattr(value, name), path, holder.kind)
        if isinstance(value, partial) and name in ("args", "keywords", "func"):
            return Place(getattr(value, name), path, "closure")
        if type(value) in (self._torch.Tensor, self._torch.nn.Parameter) and name == "grad":
            return Place(value.grad, path, "gradient")
        if isinstance(value, (slice, range)) and name in ("start", "stop", "step"):
            return Place(getattr(value, name), path, holder.kind)
        kind = "attribute" if holder.kind in ("argument", "global", "closure") else holder.kind
        if self._is_optimizer(value):
            kind = {"param_groups": "optimizer", "state": "optimizer_state"}.get(name, kind)
        own = object.__getattribute__(value, "__dict__")
        if name in own:
            return Place(own[name], path, kind)
        if isinstance(value, self._torch.nn.Module):
            for held in _HELD_BY_MODULES:
                if name in own[held]:
                    return Place(own[held][name], path, kind)
        for base in type(value).__mro__:
            if name in vars(base):
                found = vars(base)[name]
                if isinstance(found, MemberDescriptorType):
                    found = found.__get__(value)
                return None if hasattr(type(found), "__get__") else Place(found, path, kind)
        return None

    def _held(self, holder: Place, held: str, key: Any) -> Place | None:
        """What a module or a function holds under a name of its own."""
        value = holder.value
        if isinstance(value, self._torch.nn.Module) and held in _HELD_BY_MODULES:
            path = f"{holder.argument}[{key}]" if str(key).isdigit() else f"{holder.argument}.{key}"
            return Place(object.__getattribute__(value, "__dict__")[held][key], path, "attribute")
        if isinstance(value, FunctionType) and held == "__closure__" and value.__closure__:
            return Place(value.__closure__[key], value.__code__.co_freevars[key], "closure")
        if isinstance(value, FunctionType) and held == "__defaults__" and value.__defaults__:
            code = value.__code__
            name = code.co_varnames[code.co_argcount - len(value.__defaults__) + key]
            return Place(value.__defaults__[key], name, "closure")
        if isinstance(value, partial) and held == "keywords":
            return Place(value.keywords[key], str(key), "closure")
        return None

    def _item(self, holder: Place, index: ast.expr) -> Place | None:
        value: Any = holder.value
        if not isinstance(index, ast.Constant):
            return self._nth(holder, index)
        key: Any = index.value
        path, kind = f"{holder.argument}[{key!r}]", holder.kind
        if kind == "call":
            path, kind = str(key), "argument"
            if isinstance(value, tuple):
                path = self._parameters[key] if key < len(self._parameters) else f"args[{key}]"
        if isinstance(value, dict):
            found = dict.__getitem__(value, key)
        elif isinstance(value, list):
            found = list.__getitem__(value, key)
        elif isinstance(value, tuple):
            found = tuple.__getitem__(value, key)
        else:
            return None
        return Place(found, "optimizer" if kind == "argument" and self._is_optimizer(found) else path, kind)

    def _nth(self, holder: Place, index: ast.expr) -> Place | None:
        """The value of a dict's n-th key: `x[list(dict.keys(x))[0]]`."""
        if not isinstance(index, ast.Subscript) or not isinstance(index.slice, ast.Constant):
            return None
        if "keys(" not in ast.unparse(index.value) or not isinstance(holder.value, dict):
            return None
        path = holder.argument if holder.kind == "optimizer_state" else f"{holder.argument}[…]"
        position: Any = index.slice.value
        return Place(list(dict.values(holder.value))[position], path, holder.kind)

    def _is_optimizer(self, value: Any) -> bool:
        return isinstance(value, self._torch.optim.Optimizer)


def rest_names(code: CodeType) -> list[str]:
    """The names of `*args` and `**kwargs`."""
    first = code.co_argcount + code.co_kwonlyargcount
    return list(code.co_varnames[first : first + bool(code.co_flags & 4) + bool(code.co_flags & 8)])


# --- compiled graphs ------------------------------------------------------------------------------------------


def watch_graphs(module: ModuleType, made: Callable[[Any], None]) -> Patch | None:
    """Call `made(graph)` for every graph that Inductor has compiled or loaded, once it is ready to be called."""
    graphs = getattr(module, "CompiledFxGraph", None)
    post_compile = vars(graphs).get("post_compile") if graphs is not None else None
    if graphs is None or not callable(post_compile):
        return None

    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = post_compile(self, *args, **kwargs)
        made(self)
        return result

    return Patch(graphs, "post_compile", watched)


def around_next_call(
    graph: Any, begin: Callable[[bool, Any], Any], end: Callable[[Any, Any], None]
) -> Callable[[], bool] | None:
    """Call `begin(is_backward, inputs)` and `end(…, result)` around the next call of `graph`, which takes this wrapper
    away itself; the result is None where the call raised.

    Returns a function that says whether it is still there; None where `graph` cannot be wrapped.
    """
    call = getattr(graph, "current_callable", None)
    if not callable(call):
        return None
    options = getattr(graph, "fx_kwargs", None)
    is_backward = bool(options.get("is_backward")) if isinstance(options, dict) else False
    weak = ref(graph)
    called = False

    def first(inputs: Any) -> Any:
        nonlocal called
        if called:  # somebody kept this wrapper for good
            return call(inputs)
        called = True
        graph = weak()
        if graph is not None and graph.current_callable is first:
            graph.current_callable = call
        token = begin(is_backward, inputs)
        result = None
        try:
            result = call(inputs)
            return result
        finally:
            end(token, result)

    graph.current_callable = first
    return lambda: getattr(weak(), "current_callable", None) is first


# --- the profiler -------------------------------------------------------------------------------------------------


class Kineto:
    """PyTorch's profiler: the part below torch.profiler.profile, which imports Inductor's settings when it begins."""

    def __init__(self) -> None:
        self._module: Any = sys.modules.get("torch.autograd.profiler")
        self._profile: Any = None
        self._patches: list[Patch] = []

    @property
    def there(self) -> bool:
        """Whether this version of PyTorch has it."""
        names = ("profile", "record_function", "_is_profiler_enabled", "_supported_activities", *_PROFILER_BEGINS)
        if not all(hasattr(self._module, name) for name in names):
            return False
        event: Any = sys.modules["torch"]._C._autograd._KinetoEvent
        methods = ((self._module.profile, ("_prepare_trace", "_start_trace")), (event, ("activity_type",)))
        return all(hasattr(owner, name) for owner, names in methods for name in names)

    @property
    def can_see_gpus(self) -> bool:
        """Whether it may look at GPUs: with an older CUDA it can crash a program that uses CUDA graphs."""
        version = getattr(sys.modules["torch"].version, "cuda", None)
        return version is None or tuple(map(int, str(version).split(".")[:2])) >= _SAFE_CUDA

    def start(self, give_way: Callable[[], None]) -> bool:
        """See `recording.Profiler`, as for all below. Where two sessions meet, PyTorch loses one without a word."""
        module = self._module
        if module._is_profiler_enabled:
            return False
        device = "cuda" if self.can_see_gpus and self._gpus_run() else None
        profile = module.profile(use_kineto=True, use_device=device, experimental_config=_all_threads())
        profile._prepare_trace()  # which the first time sets what is logged
        with _unlogged():
            profile._start_trace()
        self._profile = profile
        for name in _PROFILER_BEGINS:
            self._patches.append(Patch(module, name, _after(give_way, getattr(module, name))))
        return True

    def _gpus_run(self) -> bool:
        """Built without CUPTI, PyTorch would record a CUDA event around every operator instead."""
        cuda: Any = sys.modules.get("torch.cuda")
        if cuda is None or not cuda.is_initialized():
            return False
        return any(activity.name == "CUDA" for activity in self._module._supported_activities())

    def mark(self) -> Any:
        return self._module.record_function(MARK)

    def stop(self) -> list[Any]:
        for patch in self._patches:
            patch.undo()
        self._patches.clear()
        profile, self._profile = self._profile, None
        with _unlogged():
            profile.__exit__(None, None, None)
        return list(profile.kineto_results.events())

    def count(self, saw: list[Any]) -> int:
        return len(saw)

    def share(self, saw: list[Any]) -> float:
        return len(saw) / _MAX_EVENTS


_SAFE_CUDA = 12, 6
_MAX_EVENTS = 200_000
_PROFILER_BEGINS = ("_prepare_profiler", "_enable_profiler")


_LOG_LEVEL = "_ZN9libkineto6Logger14severityLevel_E"
_NOTHING = 6  # above the level of all that Kineto logs


@contextlib.contextmanager
def _unlogged() -> Iterator[None]:
    """Keep Kineto from announcing our sessions on stderr, which newer versions do at the highest level of all."""
    try:
        library = os.path.join(os.path.dirname(sys.modules["torch"].__file__ or ""), "lib", "libtorch_cpu.so")
        level = ctypes.c_int.in_dll(ctypes.CDLL(library), _LOG_LEVEL)
    except (OSError, ValueError):  # built otherwise
        yield
        return
    before, level.value = level.value, _NOTHING
    try:
        yield
    finally:
        level.value = before


def _after(give_way: Callable[[], None], begin: Callable[..., Any]) -> Callable[..., Any]:
    def shared(*args: Any, **kwargs: Any) -> Any:
        give_way()
        return begin(*args, **kwargs)

    return shared


def _all_threads() -> Any:
    """The setting by which the profiler sees every thread, and may end on another one than it began on."""
    config = getattr(sys.modules.get("torch._C._profiler"), "_ExperimentalConfig", None)
    try:
        return config(profile_all_threads=True) if config is not None else None
    except TypeError:  # an older PyTorch
        return None
