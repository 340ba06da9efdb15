"""JAX's private side: the program being compiled, as its stack shows it, and the hooks that have no public form.

Every name used here is tested for first (`jax_names` lists them); `Internals.missing` lists the absent ones.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from inspect import signature
from types import FrameType, FunctionType
from typing import Any
from weakref import ref

from coldstep._util.slotted import field, slotted
from coldstep.blind_spots import RECOMPILES, Unseen
from coldstep.errors import our_errors
from coldstep.events import Args
from coldstep.places import absolute, location
from coldstep_collectors.jax._private import names
from coldstep_collectors.jax._private.pmap import Mapped, mapped
from coldstep_collectors.names import code_of, has_fields, missing
from coldstep_collectors.patch import Patch, Undo
from coldstep_collectors.unrolled import LEAST, MOST, Line, Operation

STATIC: Any = object()
"""Stands for a static argument among the others."""
_REPORTS = ("debug_callback", "debug_print")
_DEPTH = 8  # of programs within programs
_LARGE_CONSTANT_ELEMENTS = 1 << 12  # of a constant that a text shows


@slotted
class Static:
    """Stands around a static value that lies among the leaves of an argument."""

    value: Any


_UNSEEN = {
    "dispatch": Unseen("which phases belong to one compile", RECOMPILES),
    "function": Unseen("which function a program is compiled for", RECOMPILES),
    "arguments": Unseen("the arguments that a program is compiled for"),
    "donated": Unseen("which arguments are donated"),
    "static": Unseen("which arguments are static"),
    "shardings": Unseen("the shardings that are given to jit"),
    "options": Unseen("the backend that is given to jit, and keep_unused"),
    "lowering": Unseen("the lowered program, and the results of a program"),
    "jaxpr": Unseen("which trace() a lower() belongs to", RECOMPILES),
    "module": Unseen("which lower() a compile() belongs to", RECOMPILES),
    "program": Unseen("the devices of a program, and its compiler options", RECOMPILES),
    "executable": Unseen("XLA's own text of a program, its memory, and what it returns"),
}
"""The texts for a fact that cannot be seen. A blind spot that hides only causes leaves them
`unknown`; where a program is not tied to its function, it is not known either whether it was compiled before."""

_tried: dict[int, tuple[ref[Any], ref[Any]]] = {}
"""Functions that a forecast had JAX trace, by id, and what `jit` made of them."""

_MESHES = {"mesh_context_manager": "mesh", "abstract_mesh_context_manager": "mesh"}
"""What the two ways to enter a mesh are called in JAX's configuration."""


@slotted
class Leaf:
    """One array argument, as JAX sees it. `committed` means pinned to its device or sharding by the user."""

    aval: Any
    sharding: Any
    committed: bool


@slotted
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
    is_mapped: bool = False
    """`jax.pmap` was given the function: JAX has another name for it."""
    options: Any = None
    legible: Collection[str] = ()
    """Which of `jax_names.OPTIONS` can be read there."""
    args: Sequence[Any] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    leaves: list[Leaf] = field(default_factory=list)
    donated: Sequence[bool] = ()
    debug: Any = None
    """What JAX knows of where the function comes from."""
    inputs: int = 0
    """How many inputs that names."""
    transform: str | None = None
    """The program is not the function but what grad or vmap made of it, by this rule."""
    program: Any = None
    """What the previous phase made, and this one begins with: a jaxpr for a lowering, a module for a compilation."""
    devices: Sequence[Any] = ()
    compiler_options: Sequence[tuple[str, Any]] = ()
    unread: list[FrameType] = field(default_factory=list)
    """The frames that show the rest, the innermost first, until it is read."""

    @property
    def names(self) -> Sequence[str]:
        """Those of the inputs, as far as JAX knows them."""
        return _arg_names(self.debug, self.inputs) if self.debug is not None else ()

    @property
    def source(self) -> tuple[str, str, int] | None:
        """Name, file and line of the function, where the function itself is out of reach."""
        return _source(self.debug) if self.debug is not None else None

    def statics(self) -> Iterator[tuple[str, Any]]:
        """Name and value of each static argument that was passed."""
        options = self.options
        if "static" not in self.legible or self.is_equinox():
            return
        names = list(options.fun_signature.parameters) if options.fun_signature is not None else []
        for position in options.static_argnums:
            at = position if position >= 0 else position + len(self.args)
            if 0 <= at < len(self.args):
                yield names[at] if at < len(names) else f"args[{at}]", self.args[at]
        for name in options.static_argnames:
            if name in self.kwargs:
                yield name, self.kwargs[name]

    def static_self(self) -> Any:
        """The first argument, where it is static and JAX knows it by identity, whatever becomes of what it holds; None
        of any other, and of a function that wraps another: that may take others."""
        is_itself = isinstance(self.function, FunctionType) and not hasattr(self.function, "__wrapped__")
        if not (is_itself and self.args and any(value is self.args[0] for _, value in self.statics())):
            return None
        kind: Any = type(self.args[0])
        is_known_by_identity = kind.__hash__ is object.__hash__ and kind.__eq__ is object.__eq__
        return self.args[0] if is_known_by_identity else None

    def arguments(self) -> list[tuple[str, Any, bool]]:
        """Name, value and whether passed by keyword, in JAX's order; `STATIC` in the place of a static value.

        Raises an exception where the call does not go with the function's signature.
        """
        options = self.options
        if "static" not in self.legible:
            return []
        if self.is_equinox():
            return self._arguments_of_equinox()
        static = {at if at >= 0 else at + len(self.args) for at in options.static_argnums}
        args = [STATIC if at in static else value for at, value in enumerate(self.args)]
        kwargs = {
            name: STATIC if name in options.static_argnames else self.kwargs[name] for name in sorted(self.kwargs)
        }
        if (known := options.fun_signature) is None:
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
        arguments: list[tuple[str, Any, bool]] = []
        function = self.of_equinox()
        names = list(signature(function.value if isinstance(function, Static) else function).parameters)
        for key, value in self._parts_of_equinox():
            if key == "fun":
                arguments.append(("self", value, False))
            elif key == "first":
                arguments.append((names[0] if names else "args[0]", value, False))
            else:
                positional, keywords = value
                rest = positional if names else positional[:0]
                arguments += ((names[at], part, False) for at, part in enumerate(rest[: len(names) - 1], start=1))
                arguments += ((name, part, True) for name, part in sorted(keywords.items()))
        return arguments

    def other_options(self) -> dict[str, Any]:
        """Further options given to `jit`."""
        if "options" not in self.legible:
            return {}
        return {name: value for name in names.OPTIONS["options"] if (value := getattr(self.options, name))}

    def static_names(self) -> list[str]:
        """Which arguments are static, by position and by name."""
        if "static" not in self.legible:
            return []
        return [*map(str, self.options.static_argnums), *self.options.static_argnames]

    def specified_shardings(self) -> dict[str, list[Any]]:
        """The shardings that were given to `jit`, leaf by leaf, None for those left open."""
        given: dict[str, list[Any]] = {}
        for name in ("in_shardings", "out_shardings") if "shardings" in self.legible else ():
            leaves = getattr(self.options, f"{name}_leaves")
            if any(map(_is_specified, leaves)):
                given[name] = [leaf if _is_specified(leaf) else None for leaf in leaves]
        return given


@slotted
class Results:
    """What a compiled program returns: live objects, for use inside the hook only."""

    paths: Sequence[str]
    """Of each result, as "[0]['w']"; empty for a sole one."""
    avals: Sequence[Any]
    committed: bool
    partitions: Sequence[str] | None
    """How each is spread over the devices, in the form of `partition`; None for one device."""
    effects: Sequence[str]
    """What the program does besides, in words."""
    constants: Sequence[Any]
    """The arrays that it holds: the function read them from outside of its arguments."""


_EFFECTS = {
    "DebugEffect": "a callback (jax.debug.print, jax.debug.callback)",
    "OrderedDebugEffect": "an ordered callback (jax.debug.print, jax.debug.callback)",
    "IOEffect": "a callback (io_callback)",
    "OrderedIOEffect": "an ordered callback (io_callback)",
}


def partition(sharding: Any, rank: int) -> str | None:
    """How an array of that rank is spread over several devices; None for one device, or where it is unknown."""
    try:
        return None if len(sharding.device_set) == 1 else str(sharding._to_xla_hlo_sharding(rank))
    except our_errors():  # an abstract one, or of a type that has no such form
        return None


class Internals:
    """JAX's private modules as they are in this process, and what could not be found in them."""

    def __init__(self) -> None:
        self._pjit: Any = sys.modules.get("jax._src.pjit")
        self._pxla: Any = sys.modules.get("jax._src.interpreters.pxla")
        self._util: Any = sys.modules.get("jax._src.util")
        self._config: Any = sys.modules.get("jax._src.config")
        self._bridge: Any = sys.modules.get("jax._src.xla_bridge")
        self._pjit_file = getattr(self._pjit, "__file__", None)
        self._pxla_file = getattr(self._pxla, "__file__", None)
        self._jax_files = (self._pjit_file or "\0").removesuffix("_src/pjit.py")
        self.missing: list[str] = []
        self._calls = names.Names(self._pjit, names.PJIT)
        self._compilation = names.Names(self._pxla, names.PXLA)
        self.facts = self._facts()
        """What can be seen, by the names of `_UNSEEN`."""
        self.missing += dict.fromkeys(
            [*(words for fact, words in _UNSEEN.items() if fact not in self.facts), *missing(names.HOOKS)]
        )
        self._option_names = self._names_of_options()
        self.tells_traces_from_cached = bool(names.LISTENER.form() and names.TRACED.form())
        """Whether a phase called tracing may find the trace made earlier, and a test event says when it is a real one.
        Before 0.9 the phase is a real trace."""
        self._rules = {form.name: rule for rule, hook in names.TRANSFORMS.items() for form in hook.forms}
        self._defaults = self._context()
        self._traced_before = self._known_functions() if self.has_compiled() else {}

    def _facts(self) -> set[str]:
        pjit = self._pjit
        facts = self._calls.facts | self._compilation.facts
        info, argument = getattr(pjit, "PjitInfo", None), getattr(pjit, "MetaTy", None)
        facts |= {fact for fact, names in names.OPTIONS.items() if has_fields(info, names)}
        if "function" not in facts:
            facts.discard("made")
        if argument is not None and not has_fields(argument, names.ARGUMENT):
            facts -= {"arguments"}
        if names.AVALS.form() is None:
            facts -= {"arguments"}
        if all(code_of(pjit, name) is not None for name in names.RUNS):
            facts.add("dispatch")
        return facts

    # --- the stack --------------------------------------------------------------------------------------------

    def dispatch(self, frame: FrameType | None) -> Dispatch:
        """The innermost dispatch on the stack that ends in `frame`, a monitoring listener's: which it is, and what its
        compilation is given; all else of it is to be `read`."""
        about = Dispatch(lowers=True, compiles=True) if "dispatch" not in self.facts else Dispatch()  # the usual case
        reached = False
        while frame is not None:
            code = frame.f_code
            if code.co_filename == self._pjit_file:
                self._place(code.co_name, frame, about)
                if code.co_name == "cache_miss" or names.MAKES.get(code.co_name):
                    break
            elif code.co_filename == self._pxla_file and code.co_name == "_cached_compilation":
                local = frame.f_locals if "program" in self.facts else {}
                about.program, about.devices = local.get("computation"), local.get("da") or ()
                about.compiler_options = local.get("compiler_options_kvs") or tuple(
                    zip(*(local.get(name) or () for name in names.OPTIONS_APART), strict=True)
                )
            inside = code.co_filename.startswith(self._jax_files)
            if reached and not inside:  # the user's code: what lies above belongs to other dispatches
                break
            reached = reached or inside
            frame = frame.f_back
        return about

    def _place(self, name: str, frame: FrameType, dispatch: Dispatch) -> None:
        """Which dispatch it is, as far as one function of JAX's tells."""
        if name in self._calls.at:
            dispatch.unread.append(frame)
        if name == "cache_miss":
            dispatch.frame, dispatch.lowers, dispatch.compiles = id(frame), True, True
        elif name == "_pjit_call_impl_python":
            dispatch.frame, dispatch.compiles = id(frame), True
        elif name in names.MAKES:
            dispatch.frame, dispatch.lowers = id(frame), names.MAKES[name]
        elif name in self._rules:
            dispatch.transform = dispatch.transform or self._rules[name]

    def read(self, dispatch: Dispatch) -> None:
        """Read the rest off the stack, once, from the innermost function of JAX's outwards: the first word counts."""
        for frame in dispatch.unread:
            local = frame.f_locals
            for fact, variables in self._calls.at[frame.f_code.co_name]:
                if fact in self.facts and (take := _TAKES.get(fact)) is not None:
                    take(dispatch, *(local.get(each) for each in variables))
        dispatch.unread.clear()
        if dispatch.options is not None:
            dispatch.legible = self.facts & names.OPTIONS.keys()
        if (behind := mapped(dispatch.function)) is not None:
            dispatch.is_mapped, dispatch.function = True, behind.function
            self._take_call(dispatch, behind)

    def _take_call(self, dispatch: Dispatch, behind: Mapped) -> None:
        """The arguments as they were handed to `jax.pmap`'s function, where that can be said."""
        try:
            dispatch.args, kwargs, static = behind.call(dispatch.args)
            dispatch.kwargs = dict(kwargs)
            dispatch.options = dispatch.options._replace(
                fun_signature=behind.signature(), static_argnums=static, static_argnames=()
            )
        except our_errors():  # a container of the user's that cannot be put together, or another JAX
            dispatch.legible = ()

    def one_level(self) -> Callable[[Any], tuple[Sequence[tuple[Any, Any]], Any] | None] | None:
        """Takes one level of a pytree apart as JAX does it: children by their keys, and the rest; None of a leaf. None
        where this JAX has nothing that does."""
        whole, keys_apart = names.ONE_LEVEL.forms
        if whole.is_here:
            return whole.find()  # type: ignore[no-any-return]
        return _one_level_apart(keys_apart.find()) if keys_apart.is_here else None

    def traced(self, frame: FrameType | None) -> Any:
        """The jaxpr that the tracing which ends in `frame` made, None where it failed."""
        return self._made(frame, self._calls, "jaxpr")

    def lowered(self, frame: FrameType | None) -> Any:
        """The module that the lowering which ends in `frame` made, None where it failed."""
        return getattr(self._made(frame, self._compilation, "module"), "module", None)

    def text(self, dispatch: Dispatch) -> str | None:
        """What a phase begins with; None where that cannot be seen."""
        self.read(dispatch)
        return text(dispatch.program) if dispatch.program is not None else None

    def optimized(self, frame: FrameType | None) -> str | None:
        """XLA's own text of the program whose compilation ends in `frame`; None where it has none."""
        executable = self._made(frame, self._compilation, "executable")
        modules = executable.hlo_modules() if hasattr(executable, "hlo_modules") else []
        return "\n".join(module.to_string() for module in modules) or None

    def memory(self, frame: FrameType | None) -> Callable[[], Args]:
        """What asks XLA for its buffer assignment for the program whose compilation ends in `frame`: of a program of
        many operations it makes a large copy of that first. Until it has, or is forgotten, the program is held."""
        return partial(_memory, self._made(frame, self._compilation, "executable"))

    def results(self, frame: FrameType | None) -> Results | None:
        """What the program returns whose compilation ends in `frame`; None where it was not called but compiled by
        hand, or where that cannot be seen."""
        if not {"executable", "lowering"} <= self.facts:
            return None
        executable, devices, committed = None, (), None
        for _ in range(30):
            if frame is None:
                return None
            code = frame.f_code
            if code.co_filename == self._pxla_file and code.co_name == "_cached_compilation":
                local = frame.f_locals
                executable, devices = local.get("xla_executable"), local.get("da") or ()
            elif code.co_filename == self._pxla_file and code.co_name == "from_hlo":
                committed = frame.f_locals.get("committed")
            elif code.co_filename == self._pjit_file and code.co_name == "_pjit_call_impl_python":
                break
            frame = frame.f_back
        else:
            return None
        jaxpr = frame.f_locals["jaxpr"]
        paths, avals = getattr(_debug_info(jaxpr), "result_paths", None), jaxpr.out_avals
        if executable is None or committed is None or not isinstance(paths, tuple) or len(paths) != len(avals):
            return None
        partitions = None
        if len(devices) > 1:
            shardings = executable.get_output_shardings() or []
            partitions = [str(self._sharding_of(sharding)) for sharding in shardings]
            if len(partitions) != len(paths):
                return None
        effects = dict.fromkeys(_EFFECTS.get(name := type(effect).__name__, name) for effect in jaxpr.effects)
        plain = [path.removeprefix("result") for path in paths]
        return Results(plain, avals, committed, partitions, list(effects), getattr(jaxpr, "consts", None) or ())

    def _sharding_of(self, message: Any) -> Any:
        client: Any = sys.modules.get("jaxlib.xla_client")
        return client.HloSharding.from_proto(message)

    def jaxpr(self, frame: FrameType | None) -> Any:
        """The program whose compilation ends in `frame`; None where it was not called."""
        for _ in range(30 if "lowering" in self.facts else 0):
            if frame is None:
                return None
            if frame.f_code.co_filename == self._pjit_file and frame.f_code.co_name == "_pjit_call_impl_python":
                return frame.f_locals["jaxpr"]
            frame = frame.f_back
        return None

    def _made(self, frame: FrameType | None, names: names.Names, fact: str) -> Any:
        """The first local variable of that fact's reading, in the phase that ends in `frame`."""
        for _ in range(8):  # the listener, its guard, and the few frames of jax.monitoring
            if frame is None:
                break
            if frame.f_code.co_filename == names.file:
                for read, (name, *_more) in names.at.get(frame.f_code.co_name, ()):
                    if read == fact:
                        return frame.f_locals.get(name)
            frame = frame.f_back
        return None

    # --- configuration ----------------------------------------------------------------------------------------

    def configuration(self) -> dict[str, tuple[Any, Any]]:
        """What JAX keys its caches with beyond the arguments: now, and when we attached, where the two differ."""
        options: dict[str, tuple[Any, Any]] = {}
        for name, value in self._context().items():
            usual = self._defaults.get(name)
            if value != usual and not getattr(value, "empty", False):
                if name in _MESHES and (not usual or getattr(usual, "empty", False)):
                    usual = None  # no mesh: an empty one since JAX 0.11
                options.setdefault(_MESHES.get(name, name), (value, usual))
        return options

    def _context(self) -> dict[str, Any]:
        if self._option_names is None:
            context = dict(zip(self._config.trace_context_names(), self._config.trace_context(), strict=True))
        else:
            context = {name: self._option(name) for name in self._option_names}
        context.pop("axis_env_state", None)  # an object without a readable form, empty wherever a program is compiled
        return context

    def _option(self, name: str) -> Any:
        """An option's value now: of one that the configuration has by itself, or that is only a state."""
        state: Any = getattr(self._config, name, None)
        if hasattr(state, "value"):
            return state.value
        if hasattr(self._config.config, name):
            return getattr(self._config.config, name)
        context = self._config.jax_jit.thread_local_state().extra_jit_context  # before 0.4.36
        return context and getattr(context, name)

    def _names_of_options(self) -> list[str] | None:
        """The names by which to ask for what JAX keys its caches with beyond the arguments; None where it tells all."""
        try:
            self._config.trace_context_names()
        except our_errors():  # an older JAX, or a newer one with an older jaxlib
            options = [name for name in names.CONTEXT if self._has_option(name)]
        else:
            return None
        try:
            complete = len(options) >= len(self._config.trace_context())
        except our_errors():
            complete = False
        if not complete:
            some = "some of " if options else ""
            self.missing.append(Unseen(f"{some}the configuration that a program is compiled under"))
        return options

    def _has_option(self, name: str) -> bool:
        try:
            self._option(name)
        except our_errors():
            return False
        return True

    def has_compiled(self) -> bool:
        """Whether this process may have compiled something already."""
        try:
            if not names.BACKENDS.find()():
                return False
            return bool(names.COMPILATIONS.find()().misses)
        except our_errors():
            return True

    def traced_before(self, function: Any) -> bool:
        """Whether JAX had traced this very function when we attached."""
        known = self._traced_before.get(id(function))
        return known is not None and known() is function

    def _known_functions(self) -> dict[int, ref[Any]]:
        """The functions that JAX has traced so far, each for as long as it lives."""
        try:
            return {id(key[0]()): key[0] for key in names.TRACES.find()() if not _was_only_tried(key[0]())}
        except our_errors():
            self.missing += [names.TRACES.unseen or ""]
            return {}

    # --- hooks ------------------------------------------------------------------------------------------------

    def is_tracing(self) -> Callable[[], bool] | None:
        """A check whether JAX traces this thread's Python right now, where there is one."""
        clean = names.IS_CLEAN.find()
        return None if clean is None else lambda: not clean()

    def on_test_event(self, listener: Callable[..., None]) -> Undo:
        """Have `listener(name, *_)` called for JAX's test events: the one slot there is, shared with whoever has it."""
        if names.LISTENER.form() is None:
            return lambda: None
        util = self._util
        previous = util.test_event_listener

        def shared(name: str, *args: Any) -> None:
            listener(name, *args)
            if previous is not None:
                previous(name, *args)

        stays = "a listener for JAX's test events, which another listener calls"
        return Patch(util, "test_event_listener", shared, stays).undo

    def unregister(self, listener: str) -> Callable[[Any], None] | None:
        """What takes a listener away where `jax.monitoring` has nothing that does (before 0.8); None where none is."""
        monitoring = sys.modules.get("jax._src.monitoring")
        return getattr(monitoring, f"_unregister_{listener}_listener_by_callback", None)

    def registered(self, listener: str) -> list[Any] | None:
        """The listeners of a kind that are registered now; None where this JAX does not show them."""
        tells = getattr(sys.modules.get("jax._src.monitoring"), f"get_{listener}_listeners", None)
        return tells() if tells is not None else None

    def around_phases(self, begin: Callable[..., None], end: Callable[..., None]) -> Undo:
        """Have the two called around each phase as `jax.monitoring` calls its listeners since 0.6."""
        dispatch: Any = sys.modules.get("jax._src.dispatch")
        if (measure := names.MEASURE.find()) is None:
            self.missing += missing((names.MEASURE,))
            return lambda: None

        @contextmanager
        def announcing(*args: Any, **kwargs: Any) -> Iterator[None]:
            given = dict(zip(("fmt", "fun_name", "event"), args, strict=False)) | kwargs
            event, fun_name = given.get("event"), given.get("fun_name", "")
            begun = time.time()
            begin(event, begun, fun_name=fun_name)
            try:
                with measure(*args, **kwargs):
                    yield
            finally:
                end(event, begun, time.time(), fun_name=fun_name)

        stays = "a wrapper of JAX's measuring of its phases, which another wrapper calls"
        return Patch(dispatch, "log_elapsed_time", announcing, stays).undo

    def around_backend_init(self, begin: Callable[[str], Any], end: Callable[[Any], None]) -> list[Undo]:
        """Have `end(begin(platform))` called around the start of each backend (once per process and platform), and
        before the first of them around the loading of the plugins that devices have."""

        def around(real: Callable[..., Any]) -> Callable[..., Any]:
            @wraps(real)
            def timed(*args: Any, **kwargs: Any) -> Any:
                token = begin(str(args[0]) if args else "plugins")
                try:
                    return real(*args, **kwargs)
                finally:
                    end(token)

            return timed

        stays = "a wrapper of JAX's backend initialisation, which another wrapper calls"
        forms = filter(None, (hook.form() for hook in (names.PLUGINS, names.START_BACKEND)))
        return [Patch(self._bridge, form.name, around(form.find()), stays).undo for form in forms]


def has_run(jitted: Any) -> bool:
    """Whether a jitted function was called before in this process; also where that cannot be seen."""
    size = getattr(jitted, "_cache_size", None)
    return size is None or size() > 0


def try_out(function: Any, jitted: Any) -> None:
    """JAX will trace a function that nothing has called. Later, that JAX knows it is no sign of a call."""
    id_ = id(function)
    try:
        _tried[id_] = ref(function, lambda _: _tried.pop(id_, None)), ref(jitted)
    except TypeError:  # an object that takes no references
        return


def _was_only_tried(function: Any) -> bool:
    known, jitted = _tried.get(id(function), (None, None))
    if known is None or jitted is None or known() is not function:
        return False
    return (alive := jitted()) is None or not has_run(alive)


def text(program: Any) -> str:
    """A jaxpr, or an MLIR module with its large constants left out."""
    if (operation := getattr(program, "operation", None)) is not None:
        return str(operation.get_asm(large_elements_limit=_LARGE_CONSTANT_ELEMENTS, enable_debug_info=True))
    return _with_places(program)


def _with_places(jaxpr: Any) -> str:
    """Its text, each equation with its line of code, which JAX prints to the right of the widest of all."""
    if not hasattr(jaxpr, "pretty_print"):
        return str(jaxpr)
    rows = (line.rpartition(" # ") for line in jaxpr.pretty_print(source_info=True).split("\n"))
    return "\n".join(
        f"{text.rstrip()}{f'  # {place}' if place else ''}" if mark else place for text, mark, place in rows
    )


def _memory(executable: Any) -> Args:
    try:
        stats = executable.get_compiled_memory_stats()
        return {
            "memory": {
                "argument_bytes": int(stats.argument_size_in_bytes),
                "output_bytes": int(stats.output_size_in_bytes),
                "temp_bytes": int(stats.temp_size_in_bytes),
                "reused_bytes": int(stats.alias_size_in_bytes),
            }
        }
    except our_errors():  # a backend, or a program loaded from the cache, that does not know
        return {}


def _take_function(dispatch: Dispatch, function: Any, options: Any, args: Any, kwargs: Any) -> None:
    if dispatch.function is None:
        dispatch.function, dispatch.options, dispatch.args, dispatch.kwargs = function, options, args, kwargs


def _take_made(dispatch: Dispatch, made: Any, args: Any, kwargs: Any) -> None:
    if dispatch.function is None:
        dispatch.function, dispatch.options, dispatch.args, dispatch.kwargs = made._fun, made._jit_info, args, kwargs


def _take_arguments(dispatch: Dispatch, program: Any, arguments: Any) -> None:
    if not dispatch.leaves:
        avals = getattr(program, "in_avals", program)
        dispatch.leaves = [_leaf(aval, argument) for aval, argument in zip(avals, arguments, strict=False)]


def _take_donated(dispatch: Dispatch, donated: Any) -> None:
    if not dispatch.donated:
        dispatch.donated = donated


def _take_names(dispatch: Dispatch, debug: Any, donated: Any) -> None:
    if dispatch.source is None:
        dispatch.debug, dispatch.inputs = debug, len(donated)


def _take_lowering(dispatch: Dispatch, jaxpr: Any) -> None:
    if dispatch.source is None:
        dispatch.program = jaxpr if dispatch.program is None else dispatch.program
        _take_names(dispatch, _debug_info(jaxpr), jaxpr.in_avals)


_TAKES: dict[str, Callable[..., None]] = {
    "function": _take_function,
    "made": _take_made,
    "arguments": _take_arguments,
    "donated": _take_donated,
    "names": _take_names,
    "lowering": _take_lowering,
}
"""By fact, what takes it into a dispatch from the local variables of a frame."""


def _one_level_apart(tree_util: Any) -> Callable[[Any], tuple[Sequence[tuple[Any, Any]], Any] | None]:
    """The same where the keys of a node's children are kept apart from the rest."""
    flatten, keyed = tree_util.default_registry.flatten_one_level, tree_util._registry_with_keypaths

    def one_level(value: Any) -> tuple[Sequence[tuple[Any, Any]], Any] | None:
        if (level := flatten(value)) is None:
            return None
        children, metadata = level
        if type(value) in keyed:
            return list(keyed[type(value)].flatten_with_keys(value)[0]), metadata
        return [(f"<flat index {at}>", child) for at, child in enumerate(children)], metadata

    return one_level


_PLAIN = {bool, int, float, str, type(None)}


def operations(jaxpr: Any) -> int:
    """The equations of a jaxpr, and of those in it (of a scan's body, of a function jitted within)."""
    jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    if not hasattr(jaxpr, "eqns"):
        return 0
    number = len(jaxpr.eqns)
    for equation in jaxpr.eqns:
        for value in equation.params.values():
            for part in value if isinstance(value, (tuple, list)) else (value,):
                if type(part) not in _PLAIN:
                    number += operations(part)
    return number


@slotted
class Equations:
    """The first equations of a jaxpr, with which of its inputs each reads, and the shape of its result; kept for as
    long as it takes to look at where they come from, which nobody waits for."""

    rows: list[tuple[str, Any, list[int], str]]

    def written(self, place: Args, is_users: Callable[[str], bool]) -> list[Operation]:
        """Each with the lines of the user's that it comes from, from the function that is defined at `place` inwards;
        none where JAX does not show them."""
        known: dict[Any, tuple[Line, ...]] = {}
        operations: list[Operation] = []
        for name, traceback, read, shape in self.rows:
            if not hasattr(traceback, "raw_frames"):
                return []
            if (lines := known.get(traceback)) is None:  # a thousand equations come from a few places
                lines = known[traceback] = _lines_of(traceback, place, is_users)
            operations.append(Operation(name, lines, read, shape))
        return operations


def equations(jaxpr: Any) -> Equations:
    """Those of a jaxpr, none of which is kept itself; none of one that is too short for a loop."""
    jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    if len(jaxpr.eqns) < LEAST:
        return Equations([])
    inputs = {id(each) for each in jaxpr.invars}
    rows: list[tuple[str, Any, list[int], str]] = []
    for each in jaxpr.eqns[:MOST]:
        read = [at for value in each.invars if (at := id(value)) in inputs]
        shape = str(getattr(each.outvars[0].aval, "shape", "")) if each.outvars else ""
        rows.append((each.primitive.name, each.source_info.traceback, read, shape))
    return Equations(rows)


def callback(jaxpr: Any, is_users: Callable[[str], bool]) -> Args | None:
    """The user's line of the one callback that only reports; None where there are several, or others."""
    places = {at for each in _equations(jaxpr, _DEPTH) if (at := _of_callback(each, is_users)) is not None}
    return location(*places.pop()) if len(places) == 1 else None


def _equations(jaxpr: Any, depth: int) -> Iterator[Any]:
    for each in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        yield each
        for value in each.params.values() if depth else ():
            for inner in value if isinstance(value, (list, tuple)) else (value,):
                if hasattr(getattr(inner, "jaxpr", inner), "eqns"):
                    yield from _equations(inner, depth - 1)


def _of_callback(equation: Any, is_users: Callable[[str], bool]) -> Line | None:
    traceback = equation.source_info.traceback
    if not equation.effects or equation.primitive.name not in _REPORTS or not hasattr(traceback, "raw_frames"):
        return None
    frames = ((absolute(code.co_filename), code, at) for code, at in zip(*traceback.raw_frames(), strict=True))
    users = next(((file, code, at) for file, code, at in frames if is_users(file)), None)
    return (users[0], traceback.code_addr2line(*users[1:]), users[1].co_name) if users is not None else None


def _lines_of(traceback: Any, place: Args, is_users: Callable[[str], bool]) -> tuple[Line, ...]:
    """The user's lines of a traceback, outermost first, from the function that is defined at `place` on."""
    lines: list[Line] = []
    for code, at in zip(*traceback.raw_frames(), strict=True):  # innermost first
        if is_users(code.co_filename):
            lines.append((absolute(code.co_filename), traceback.code_addr2line(code, at), code.co_name))
        if code.co_firstlineno == place["line"] and absolute(code.co_filename) == place["file"]:
            break
    return tuple(lines[::-1])


def _leaf(aval: Any, value: Any) -> Leaf:
    """An argument, or what stands for it, as JAX sees it."""
    sharding = getattr(value, "sharding", None)
    committed = getattr(value, "committed", getattr(value, "_committed", True))
    return Leaf(aval, sharding, sharding is not None and bool(committed))


def _is_specified(sharding: Any) -> bool:
    return sharding is not None and type(sharding).__name__ != "UnspecifiedValue"


def _debug_info(jaxpr: Any) -> Any:
    """Where a jaxpr comes from; before 0.5 only the inner one tells, and only where all of it is known."""
    return getattr(jaxpr, "debug_info", None) or getattr(getattr(jaxpr, "jaxpr", None), "debug_info", None)


def _arg_names(debug_info: Any, count: int) -> Sequence[str]:
    """The names of the first `count` arguments; none where they are not known."""
    if hasattr(debug_info, "safe_arg_names"):
        names: Sequence[str] = debug_info.safe_arg_names(count)
        return names
    names = getattr(debug_info, "arg_names", None) or ()
    return [name or "" for name in names] if len(names) == count else ()


def _source(debug_info: Any) -> tuple[str, str, int] | None:
    """JAX's "name at file:line" taken apart; None where it is only a name."""
    name, _, place = str(getattr(debug_info, "func_src_info", "")).partition(" at ")
    file, _, line = place.rpartition(":")
    return (name, file, int(line)) if file and line.isdigit() else None
