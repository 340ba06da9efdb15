"""JAX's private side: what its stack says of the program being compiled, and the hooks that have no public form.

Written for JAX 0.10. Every name used here is tested for first; what is not there is said in `Internals.missing`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import wraps
from inspect import signature
from types import FrameType
from typing import Any
from weakref import ref

PYTHON_DISPATCH = "jit_cpp_cache_miss"
REAL_TRACE = "trace_to_jaxpr"

STATIC: Any = object()
"""Stands for a static argument among the others."""
_LARGE_CONSTANT = 1 << 12  # elements of a constant that a text shows


@dataclass(slots=True, frozen=True)
class Static:
    """Stands around a static value that lies among the leaves of an argument."""

    value: Any


Undo = Callable[[], str | None]
"""Takes a hook away; returns, in words, what stays where it is no longer ours to take."""

_LOCALS = {
    "_trace_for_jit": ("fun", "ji", "dbg", "avals", "args", "kwargs", "donated_invars", "jaxpr"),
    "_infer_params": ("dynargs",),
    "_run_python_pjit": ("p", "fun", "args", "kwargs"),
    "_resolve_and_lower": ("args", "jaxpr", "donated_invars"),
    "_pjit_call_impl_python": ("arg_types", "jaxpr", "donated_invars"),
    "_cpp_pjit": ("jit_info",),
    "jit_trace": ("jit_func", "args", "kwargs"),
    "jit_lower": ("jit_func", "args", "kwargs"),
}
"""The functions of JAX's `pjit` module that we recognise on the stack, and the local variables that we read there."""

_OPTIONS = ("backend", "keep_unused")
"""Options of `jit` that make another program and are seen nowhere else."""

_MESHES = {"mesh_context_manager": "mesh", "abstract_mesh_context_manager": "mesh"}
"""What the two ways to enter a mesh are called in JAX's configuration."""

_FIELDS = {
    "PjitInfo": (
        "fun_signature",
        "static_argnums",
        "static_argnames",
        "in_shardings_leaves",
        "out_shardings_leaves",
        *_OPTIONS,
    ),
    "MetaTy": ("aval", "sharding", "committed"),
}
"""The same for that module's classes."""

_RULES = {
    "_pjit_batcher": "vmap",
    "_pjit_jvp": "jvp",
    "_pjit_linearize": "linearize",
    "_pjit_partial_eval": "partial_eval",
    "_pjit_transpose_fancy": "transpose",
}
"""What runs a jitted function that grad or vmap took apart eagerly: the program is then not the function's own."""


@dataclass(slots=True)
class Leaf:
    """One array argument, as JAX sees it. `committed` means pinned to its device or sharding by the user."""

    aval: Any
    sharding: Any
    committed: bool


@dataclass(slots=True)
class Dispatch:
    """One call, trace, lowering or compilation of a jitted function, read off the stack.

    It holds the user's function and arguments: it must not outlive the hook that asked for it.
    """

    frame: int | None = None
    """Tells two dispatches apart while both run: the id of the frame under which all of this one happens."""
    lowers: bool = False
    """A lowering follows the trace, unless it is remembered from an earlier one."""
    compiles: bool = False
    """An XLA compilation follows the lowering."""
    function: Any = None
    options: Any = None
    args: Sequence[Any] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    leaves: list[Leaf] = field(default_factory=list)
    names: Sequence[str] = ()
    donated: Sequence[bool] = ()
    source: tuple[str, str, int] | None = None
    """Name, file and line of the function, where the function itself cannot be had."""
    transform: str | None = None
    """The program is not the function but what grad or vmap made of it, by this rule."""
    program: Any = None
    """What the previous phase made, and this one begins with: a jaxpr for a lowering, a module for a compilation."""
    devices: Sequence[Any] = ()
    compiler_options: Sequence[tuple[str, Any]] = ()

    def statics(self) -> Iterator[tuple[str, Any]]:
        """Name and value of each static argument that was passed."""
        options = self.options
        if options is None or self.is_equinox():
            return
        names = list(options.fun_signature.parameters) if options.fun_signature is not None else []
        for position in options.static_argnums:
            at = position if position >= 0 else position + len(self.args)
            if 0 <= at < len(self.args):
                yield names[at] if at < len(names) else f"args[{at}]", self.args[at]
        for name in options.static_argnames:
            if name in self.kwargs:
                yield name, self.kwargs[name]

    def arguments(self) -> list[tuple[str, Any, bool]]:
        """Name, value and whether passed by keyword, in JAX's order; `STATIC` in the place of what is static.

        Raises an exception where the call does not go with the function's signature.
        """
        options = self.options
        if options is None:
            return []
        if self.is_equinox():
            return self._arguments_of_equinox()
        static = {at if at >= 0 else at + len(self.args) for at in options.static_argnums}
        args = [STATIC if at in static else value for at, value in enumerate(self.args)]
        kwargs = {
            name: STATIC if name in options.static_argnames else self.kwargs[name] for name in sorted(self.kwargs)
        }
        known = options.fun_signature
        if known is None:
            return [
                ("args", tuple(args), False),
                *((f"kwargs[{name!r}]", value, True) for name, value in kwargs.items()),
            ]
        bound = known.bind(*args, **kwargs).arguments
        rest = next((p.name for p in known.parameters.values() if p.kind is p.VAR_KEYWORD), None)
        by_position = [(name, value, False) for name, value in bound.items() if name not in kwargs and name != rest]
        return by_position + [
            (name if name in bound else f"{rest}[{name!r}]", value, True) for name, value in kwargs.items()
        ]

    def is_equinox(self) -> bool:
        """Whether this is Equinox' `filter_jit`, which hands JAX a function of its own with three arguments."""
        module = getattr(self.function, "__module__", None)
        return module == "equinox._jit" and len(self.args) == 3 and not self.kwargs

    def of_equinox(self) -> Any:
        """The user's function, or module, that `filter_jit` runs."""
        return next(value for key, value in self._parts_of_equinox() if key == "fun")

    def _parts_of_equinox(self) -> Iterator[tuple[str, Any]]:
        """What `filter_jit` took apart, put together, in JAX's order; `Static` around what is no array."""
        donated, kept, static = self.args
        others = dict(zip(("fun", "first", "rest"), static, strict=True))
        for dynamic in (donated, kept):
            for key in sorted(dynamic):
                leaves, tree = others[key]
                pairs = zip(dynamic[key], leaves, strict=True)
                yield key, tree.unflatten([Static(other) if array is None else array for array, other in pairs])

    def _arguments_of_equinox(self) -> list[tuple[str, Any, bool]]:
        found: list[tuple[str, Any, bool]] = []
        function = self.of_equinox()
        names = list(signature(function.value if isinstance(function, Static) else function).parameters)
        for key, value in self._parts_of_equinox():
            if key == "fun":
                found.append(("self", value, False))
            elif key == "first":
                found.append((names[0] if names else "args[0]", value, False))
            else:
                positional, keywords = value
                rest = positional if names else positional[:0]
                found += ((names[at], part, False) for at, part in enumerate(rest[: len(names) - 1], start=1))
                found += ((name, part, True) for name, part in sorted(keywords.items()))
        return found

    def other_options(self) -> dict[str, Any]:
        """Further options given to `jit`."""
        options = self.options
        return {name: value for name in _OPTIONS if options is not None and (value := getattr(options, name))}

    def static_names(self) -> list[str]:
        """Which arguments are static, by position and by name."""
        options = self.options
        return [*map(str, options.static_argnums), *options.static_argnames] if options is not None else []

    def specified_shardings(self) -> dict[str, list[Any]]:
        """The shardings that were given to `jit`, leaf by leaf, None for those left open."""
        given: dict[str, list[Any]] = {}
        for name in ("in_shardings", "out_shardings") if self.options is not None else ():
            leaves = getattr(self.options, f"{name}_leaves")
            if any(map(_is_specified, leaves)):
                given[name] = [leaf if _is_specified(leaf) else None for leaf in leaves]
        return given


@dataclass(slots=True)
class Results:
    """What a compiled program returns: live objects, for use inside the hook only."""

    paths: Sequence[str]
    """Of each result, as "[0]['w']"; empty for a sole one."""
    avals: Sequence[Any]
    committed: bool
    partitions: Sequence[str] | None
    """How each is spread over the devices, as `partition` says it; None for one device."""
    effects: Sequence[str]
    """What the program does besides, in words."""


_EFFECTS = {
    "DebugEffect": "a callback (jax.debug.print, jax.debug.callback)",
    "OrderedDebugEffect": "an ordered callback (jax.debug.print, jax.debug.callback)",
    "IOEffect": "a callback (io_callback)",
    "OrderedIOEffect": "an ordered callback (io_callback)",
}


def partition(sharding: Any, rank: int) -> str | None:
    """How an array of that rank is spread over several devices; None for one device, or where it cannot be said."""
    try:
        return None if len(sharding.device_set) == 1 else str(sharding._to_xla_hlo_sharding(rank))
    except Exception:  # an abstract one, or of a type that has no such form
        return None


class Internals:
    """JAX's private modules as they are in this process, and what could not be found in them."""

    def __init__(self) -> None:
        self._pjit: Any = sys.modules.get("jax._src.pjit")
        self._pxla: Any = sys.modules.get("jax._src.interpreters.pxla")
        self._core: Any = sys.modules.get("jax._src.core")
        self._util: Any = sys.modules.get("jax._src.util")
        self._config: Any = sys.modules.get("jax._src.config")
        self._bridge: Any = sys.modules.get("jax._src.xla_bridge")
        self._pjit_file = getattr(self._pjit, "__file__", None)
        self._pxla_file = getattr(self._pxla, "__file__", None)
        self._jax_files = (self._pjit_file or "\0").removesuffix("_src/pjit.py")
        self._reads_frames = (
            all(self._has_locals(*known) for known in _LOCALS.items())
            and all(hasattr(getattr(self._pjit, name, None), field) for name in _FIELDS for field in _FIELDS[name])
            and hasattr(getattr(self._core, "DebugInfo", None), "safe_arg_names")
        )
        self._reads_config = hasattr(self._config, "trace_context") and hasattr(self._config, "trace_context_names")
        self.missing: list[str] = []
        if not self._reads_frames:
            self.missing.append("which function a program is compiled for, its arguments and its options")
        if not (hasattr(self._pxla, "_cached_compilation") and hasattr(self._pxla, "_cached_lowering_to_hlo")):
            self.missing.append("the devices of a program, and which lower() a compile() belongs to")
        if not self._reads_config:
            self.missing.append("the configuration that a program is compiled under")
        self._defaults = self._context()
        self._traced_before = self._known_functions() if self.has_compiled() else {}

    def _has_locals(self, function: str, names: tuple[str, ...]) -> bool:
        found = getattr(self._pjit, function, None)
        code = getattr(getattr(found, "__wrapped__", found), "__code__", None)
        return code is not None and set(names) <= {*code.co_varnames, *code.co_cellvars}

    # --- the stack --------------------------------------------------------------------------------------------

    def dispatch(self, frame: FrameType | None) -> Dispatch:
        """The innermost dispatch on the stack that ends in `frame`, a monitoring listener's."""
        if not self._reads_frames:
            return Dispatch(lowers=True, compiles=True)  # the usual case
        found = Dispatch()
        reached = False
        while frame is not None:
            code = frame.f_code
            if code.co_filename == self._pjit_file:
                self._read(code.co_name, frame, found)
                if code.co_name in ("cache_miss", "jit_lower"):
                    break
            elif code.co_filename == self._pxla_file and code.co_name == "_cached_compilation":
                local = frame.f_locals
                found.program = local.get("computation")
                found.devices = local.get("da") or ()
                found.compiler_options = local.get("compiler_options_kvs") or ()
            inside = code.co_filename.startswith(self._jax_files)
            if reached and not inside:  # the user's code: what lies above belongs to other dispatches
                break
            reached = reached or inside
            frame = frame.f_back
        return found

    def _read(self, name: str, frame: FrameType, found: Dispatch) -> None:
        if name == "_trace_for_jit":
            local = frame.f_locals
            found.function, found.options = local["fun"], local["ji"]
            found.args, found.kwargs = local["args"], local["kwargs"]
            found.donated = local["donated_invars"]
            found.names = local["dbg"].safe_arg_names(len(local["avals"]))
            found.leaves = [Leaf(aval, None, False) for aval in local["avals"]]
        elif name == "_infer_params":
            for leaf, value in zip(found.leaves, frame.f_locals["dynargs"], strict=False):
                leaf.sharding = getattr(value, "sharding", None)
                leaf.committed = leaf.sharding is not None and getattr(value, "_committed", True)
        elif name == "_resolve_and_lower":
            self._read_lowering(frame.f_locals, "args", found)
        elif name == "_pjit_call_impl_python":
            if not found.leaves:
                self._read_lowering(frame.f_locals, "arg_types", found)
            found.frame, found.compiles = id(frame), True
        elif name in _RULES:
            found.transform = found.transform or _RULES[name]
        elif name == "_run_python_pjit":
            local = frame.f_locals
            found.function, found.args, found.kwargs = local["fun"], local["args"], local["kwargs"]
        elif name == "cache_miss":
            found.frame, found.lowers, found.compiles = id(frame), True, True
            found.options = frame.f_locals.get("jit_info")
        elif name in ("jit_trace", "jit_lower"):
            found.frame, found.lowers = id(frame), name == "jit_lower"
            if found.function is None:
                local = frame.f_locals
                found.function, found.options = local["jit_func"]._fun, local["jit_func"]._jit_info
                found.args, found.kwargs = local["args"], local["kwargs"]

    def _read_lowering(self, local: dict[str, Any], types: str, found: Dispatch) -> None:
        jaxpr = local["jaxpr"]
        if found.program is None:
            found.program = jaxpr
        found.leaves = [Leaf(t.aval, t.sharding, t.committed and t.sharding is not None) for t in local[types]]
        found.donated = local["donated_invars"]
        found.names = jaxpr.debug_info.safe_arg_names(len(found.leaves))
        found.source = _source(jaxpr.debug_info.func_src_info)

    def traced(self, frame: FrameType | None) -> Any:
        """The jaxpr that the tracing which ends in `frame` made, None where it failed."""
        return self._made(frame, self._pjit_file, "_trace_for_jit", "jaxpr")

    def lowered(self, frame: FrameType | None) -> Any:
        """The module that the lowering which ends in `frame` made, None where it failed."""
        result = self._made(frame, self._pxla_file, "_cached_lowering_to_hlo", "lowering_result")
        return getattr(result, "module", None)

    def text(self, program: Any) -> str | None:
        """A jaxpr, or an MLIR module with its large constants left out; None for anything else."""
        if program is None:
            return None
        operation = getattr(program, "operation", None)
        if operation is not None:
            return str(operation.get_asm(large_elements_limit=_LARGE_CONSTANT, enable_debug_info=True))
        return str(program)

    def optimized(self, frame: FrameType | None) -> str | None:
        """XLA's own text of the program whose compilation ends in `frame`; None where it tells none."""
        executable = self._made(frame, self._pxla_file, "_cached_compilation", "xla_executable")
        modules = executable.hlo_modules() if hasattr(executable, "hlo_modules") else []
        return "\n".join(module.to_string() for module in modules) or None

    def memory(self, frame: FrameType | None) -> dict[str, int] | None:
        """XLA's buffer assignment for the program whose compilation ends in `frame`; None where it tells none."""
        executable = self._made(frame, self._pxla_file, "_cached_compilation", "xla_executable")
        try:
            stats = executable.get_compiled_memory_stats()
            return {
                "argument_bytes": int(stats.argument_size_in_bytes),
                "output_bytes": int(stats.output_size_in_bytes),
                "temp_bytes": int(stats.temp_size_in_bytes),
            }
        except Exception:  # a backend, or a program loaded from the cache, that does not know
            return None

    def results(self, frame: FrameType | None) -> Results | None:
        """What the program returns whose compilation ends in `frame`; None where it was not called but compiled by
        hand."""
        executable, devices, committed = None, (), None
        for _ in range(30):
            if frame is None:
                return None
            code, local = frame.f_code, frame.f_locals
            if code.co_filename == self._pxla_file and code.co_name == "_cached_compilation":
                executable, devices = local.get("xla_executable"), local.get("da") or ()
            elif code.co_filename == self._pxla_file and code.co_name == "from_hlo":
                committed = local.get("committed")
            elif code.co_filename == self._pjit_file and code.co_name == "_pjit_call_impl_python":
                break
            frame = frame.f_back
        else:
            return None
        jaxpr = local["jaxpr"]
        paths, avals = jaxpr.debug_info.result_paths, jaxpr.out_avals
        if executable is None or committed is None or not isinstance(paths, tuple) or len(paths) != len(avals):
            return None
        partitions = None
        if len(devices) > 1:
            shardings = executable.get_output_shardings() or []
            partitions = [str(self._sharding_of(sharding)) for sharding in shardings]
            if len(partitions) != len(paths):
                return None
        effects = dict.fromkeys(_EFFECTS.get(name := type(effect).__name__, name) for effect in jaxpr.effects)
        return Results([path.removeprefix("result") for path in paths], avals, committed, partitions, list(effects))

    def _sharding_of(self, message: Any) -> Any:
        client: Any = sys.modules.get("jaxlib.xla_client")
        return client.HloSharding.from_proto(message)

    def operations(self, frame: FrameType | None) -> int | None:
        """How many operations the program has whose compilation ends in `frame`; None where it was not called."""
        for _ in range(30):
            if frame is None:
                return None
            if frame.f_code.co_filename == self._pjit_file and frame.f_code.co_name == "_pjit_call_impl_python":
                return _operations(frame.f_locals["jaxpr"])
            frame = frame.f_back
        return None

    def _made(self, frame: FrameType | None, file: str | None, function: str, name: str) -> Any:
        for _ in range(8):  # the listener, its guard, and the few frames of jax.monitoring
            if frame is None:
                break
            if frame.f_code.co_name == function and frame.f_code.co_filename == file:
                return frame.f_locals.get(name)
            frame = frame.f_back
        return None

    # --- configuration ----------------------------------------------------------------------------------------

    def configuration(self) -> dict[str, tuple[Any, Any]]:
        """What JAX keys its caches with beyond the arguments: now, and when we attached, where the two differ."""
        found: dict[str, tuple[Any, Any]] = {}
        for name, value in self._context().items():
            usual = self._defaults.get(name)
            if value != usual and not getattr(value, "empty", False):
                found.setdefault(_MESHES.get(name, name), (value, usual or None if name in _MESHES else usual))
        return found

    def _context(self) -> dict[str, Any]:
        if not self._reads_config:
            return {}
        context = dict(zip(self._config.trace_context_names(), self._config.trace_context(), strict=True))
        context.pop("axis_env_state", None)  # an object without a readable form, empty wherever a program is compiled
        return context

    def has_compiled(self) -> bool:
        """Whether this process may have compiled something already."""
        try:
            if not self._bridge.backends_are_initialized():
                return False
            return bool(self._pxla._cached_compilation.cache_info().misses)
        except Exception:
            return True

    def traced_before(self, function: Any) -> bool:
        """Whether JAX had traced this very function when we attached."""
        known = self._traced_before.get(id(function))
        return known is not None and known() is function

    def _known_functions(self) -> dict[int, ref[Any]]:
        """The functions that JAX has traced so far, each for as long as it lives."""
        try:
            keys = sys.modules["jax._src.interpreters.partial_eval"].trace_to_jaxpr.cache_keys()
            return {id(key[0]()): key[0] for key in keys}
        except Exception:
            self.missing.append("which functions had been compiled before the trace")
            return {}

    # --- hooks ------------------------------------------------------------------------------------------------

    def is_tracing(self) -> Callable[[], bool] | None:
        """A check whether JAX traces this thread's Python right now, where there is one."""
        clean = getattr(self._core, "trace_state_clean", None)
        if clean is None:
            self.missing.append("whether a mark stands in code that is being traced")
            return None
        return lambda: not clean()

    def on_test_event(self, listener: Callable[..., None]) -> Undo:
        """Have `listener(name, *_)` called for JAX's test events: the one slot there is, shared with whoever has it."""
        util = self._util
        if not hasattr(util, "test_event_listener"):
            self.missing.append("Python dispatches")
            return lambda: None
        previous = util.test_event_listener

        def shared(name: str, *args: Any) -> None:
            listener(name, *args)
            if previous is not None:
                previous(name, *args)

        util.test_event_listener = shared

        def undo() -> str | None:
            if util.test_event_listener is not shared:
                return "a listener for JAX's test events, which another listener calls"
            util.test_event_listener = previous
            return None

        return undo

    def around_backend_init(self, begin: Callable[[str], Any], end: Callable[[Any], None]) -> Undo:
        """Have `end(begin(platform))` called around the start of each backend (once per process and platform)."""
        bridge = self._bridge
        initialize = getattr(bridge, "_init_backend", None)
        if initialize is None:
            self.missing.append("the start of backends")
            return lambda: None

        @wraps(initialize)
        def timed(platform: str, *args: Any, **kwargs: Any) -> Any:
            token = begin(platform)
            try:
                return initialize(platform, *args, **kwargs)
            finally:
                end(token)

        bridge._init_backend = timed

        def undo() -> str | None:
            if bridge._init_backend is not timed:
                return "a wrapper of JAX's backend initialisation, which another wrapper calls"
            bridge._init_backend = initialize
            return None

        return undo


def _operations(jaxpr: Any) -> int:
    """The equations of a jaxpr, and of those in it (of a scan's body, of a function jitted within)."""
    jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    if not hasattr(jaxpr, "eqns"):
        return 0
    inner = (value for equation in jaxpr.eqns for value in equation.params.values())
    parts = (part for value in inner for part in (value if isinstance(value, (tuple, list)) else (value,)))
    return len(jaxpr.eqns) + sum(map(_operations, parts))


def _is_specified(sharding: Any) -> bool:
    return sharding is not None and type(sharding).__name__ != "UnspecifiedValue"


def _source(text: str) -> tuple[str, str, int] | None:
    """JAX's "name at file:line" taken apart; None where it is only a name."""
    name, _, place = text.partition(" at ")
    file, _, line = place.rpartition(":")
    return (name, file, int(line)) if file and line.isdigit() else None


def process_index() -> int | None:
    """This process's number in the job, where jax.distributed was started."""
    state = getattr(sys.modules.get("jax._src.distributed"), "global_state", None)
    started = getattr(state, "client", None) is not None
    index = getattr(state, "process_id", None) if started else None
    return index if isinstance(index, int) else None


def backend_started() -> bool:
    """Whether JAX has started a backend already: asking it for its devices would."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    check = getattr(bridge, "backends_are_initialized", None)
    return bool(check is not None and check())
