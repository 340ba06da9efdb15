"""TensorFlow's private side: hooks around its traces, gradients and calls, and its keys for a call, taken apart.

The names stand in `tensorflow_names`; `Internals.missing` lists the absent ones. Nothing here imports
TensorFlow: its modules are there when it has been imported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from threading import get_ident
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any

from coldstep._util.expressions import expression
from coldstep._util.slotted import field, slotted
from coldstep.clock import now
from coldstep.errors import our_errors
from coldstep_collectors.names import Form, Hook, missing
from coldstep_collectors.patch import Patch
from coldstep_collectors.tensorflow._private import names
from coldstep_collectors.values import attribute, closure

FORWARD, BACKWARD = b"__forward_", b"__inference___backward_"
"""How the names of a function's gradient functions begin."""
ELEMENT = "[…]"
"""How the path of what a data set hands out ends: it is no tensor of the call's."""
_XLA, _DATA = "_XlaMustCompile", "_tf_data_function"
_USUAL = {"device_functions": (), "colocation_stack": (), "in_cross_replica_context": False, "variable_policy": None,
          "xla_context_id": 0}  # fmt: skip
"""What the context of a call is where nothing was entered; its graph stands beside them."""
_WRAPPERS = 20
# TensorFlow: "__inference_serve_1234"
_GRAPH_NAME = expression(r"__inference_(.+)_\d+")

Begin = Callable[..., Any]
End = Callable[..., object]


@slotted
class Tracing:
    """A trace that is about to begin. Live objects: for use inside the hook only."""

    frame: FrameType
    """Who asked for it."""
    asked: Any
    """The type of the call."""
    traced: Any
    """The type that is traced: the same, or one that takes more calls."""
    context: Any
    """Under what the call was made; None where that is not seen."""
    options: Any
    """Which function, and how."""

    @classmethod
    def of(cls, frame: FrameType, traced: Any, options: Any) -> Tracing:
        """The trace that is asked for from `frame`."""
        asked, context, _ = names.LOOK_UP.local(frame) or (traced, None, None)
        return cls(frame, asked, traced, context, options)

    @property
    def scope(self) -> str:
        """NO_SCOPE (a helper's), VARIABLE_CREATION (a function's first) or NO_VARIABLE_CREATION."""
        return str(getattr(self.options.scope_type, "name", ""))

    @property
    def owner(self) -> Any:
        """What lives as long as the `tf.function` itself; None for a helper's."""
        return self.options.function_captures

    @property
    def jitted(self) -> bool:
        """Whether XLA compiles it."""
        return bool((self.options.attributes or {}).get(_XLA))

    @property
    def of_data(self) -> bool:
        """Whether a data set calls it."""
        return bool((self.options.attributes or {}).get(_DATA))

    def layers(self) -> list[Any]:
        """The function, and what it wraps, outermost first."""
        return list(layers_of(self.options.python_function))

    def model(self) -> Any:
        """The Keras model whose step it is; None of any other function."""
        functions = (each for each in self.layers() if isinstance(each, FunctionType))
        of = (value for each in functions for name, value in closure(each) if name == "self")
        return next((each for each in of if hasattr(each, "train_step")), None)

    def known(self) -> list[tuple[Any, Any]]:
        """Context and type of each variant that the `tf.function` has."""
        keys = getattr(self.options.function_cache, "_primary", None) or ()
        return [(getattr(context, "context", None), type_) for context, type_ in keys]

    def rest(self) -> str | None:
        """The name of the parameter that takes any number of arguments by position."""
        return rest_of(self.options)


UNTIMED_NS = 1 << 62
_SLOW_NS = 5_000_000  # a call that is shorter compiles nothing
_SLOW_FACTOR = 3  # times the fastest
_SURE_CALLS = 256  # of a graph, all from one line: then one call is looked at, and so many not
_SURE_SKIP = 15

Keep = Callable[[int], object]


@slotted
class Watch:
    """A graph that is called by name, and what of its calls is worth a look."""

    name: bytes
    of: Any
    """The collector's own."""
    skipped: int = 0
    """How many calls were to come without a look, when it was last looked at."""
    calls: int = 0
    next: int = 1
    """The call before which the collector is to look."""
    timed: bool = False
    """Whether a slow call may be one in which XLA compiled."""
    followed: bool = False
    """Whether its calls may be the program's steps."""
    depth: int = 0
    """How many frames lie between the call and the user's line that made the last one that was looked at."""
    line: tuple[CodeType, int, int] | None = None
    """That line: code, instruction there, thread."""
    same: int = 0
    """How many calls in a row came from there; none is counted of a graph that is called from several lines."""
    fastest_ns: int = UNTIMED_NS
    """Of the calls that were looked at."""
    slow_ns: int = _SLOW_NS
    """A call that takes longer than this was slow."""


Due = list[Any]
"""What the next call of a watched graph needs, in one place: a hook that has no look to take touches nothing else."""
_LEFT = 0  # how many calls are still to come that need no look
_MARGIN_NS = 1  # a call that takes as long is held against the others: 0 for one that is looked at, None where none is
_KEEP = 2  # keeps the ends of calls from the line that calls it (Keep), or None
_WATCH = 3


@slotted
class _Looks:
    """What is done at the calls of a watched graph that are looked at: `Internals.around_calls` has what each is."""

    begin: Callable[[Watch, Any], Any]
    slow: Callable[[Watch, int, Any], bool | None]
    placed: Callable[[Watch, FrameType], Keep | None]

    def look(self, watch: Watch, due: Due, inputs: Any) -> Any:
        """Before a call that is due: what `begin` returns, None where it need not be asked."""
        watch.calls += watch.skipped + 1
        if watch.followed:
            self._place(watch, due)
        begun = self.begin(watch, inputs) if watch.calls >= watch.next else None
        skipped = watch.next - watch.calls - 1
        if watch.followed or watch.timed:
            is_sure = (watch.same if watch.followed else watch.calls) >= _SURE_CALLS
            skipped = min(skipped, _SURE_SKIP if is_sure else 0)
        due[_LEFT] = watch.skipped = max(skipped, 0)
        due[_MARGIN_NS] = 0 if watch.timed else None
        return begun

    def _place(self, watch: Watch, due: Due) -> None:
        try:
            users: FrameType | None = sys._getframe(watch.depth + 2)
        except ValueError:  # it is called from less deep than before
            users = None
        if users is not None and (users.f_code, users.f_lasti, get_ident()) == watch.line:
            if watch.same >= 0:
                watch.same += 1
            return
        before = watch.line
        due[_KEEP] = self.placed(watch, sys._getframe(2))
        if watch.line != before:  # and not just through other frames of TensorFlow's
            watch.same = 0 if before is None else -1

    def time(self, watch: Watch, due: Due, began: int, took: int, inputs: Any) -> None:
        """After a timed call that took longer than its margin."""
        compiled = took > watch.slow_ns and self.slow(watch, began, inputs)
        if took < watch.fastest_ns and not compiled:
            watch.fastest_ns, watch.slow_ns = took, max(_SLOW_NS, _SLOW_FACTOR * took)
        due[_MARGIN_NS] = watch.slow_ns


class Internals:
    """What of TensorFlow's insides this version has."""

    def __init__(self) -> None:
        self.missing = missing(names.HOOKS)
        self._due: dict[bytes, Due | None] = {}  # by the name of each graph that was called; None of one not watched

    def has_traced(self) -> bool:
        """Whether a function was traced in this process; also where that cannot be known."""
        counter = names.TRACED.find()
        return counter is None or bool(counter.get_cell().value())

    # --- watched graphs ---------------------------------------------------------------------------------------

    def watch(self, watch: Watch) -> None:
        """Look at functions called by their names from now on."""
        self._due[watch.name] = [0, None, None, watch]

    def unwatch(self, watch: Watch) -> None:
        """Look at it no more."""
        self._due[watch.name] = None

    def unwatch_all(self) -> None:
        """Look at nothing any more."""
        self._due.clear()

    def follow_no_more(self) -> None:
        """Take no calls for steps any more."""
        for due in filter(None, list(self._due.values())):
            watch: Watch = due[_WATCH]
            watch.followed, due[_KEEP] = False, None
            if not watch.timed and watch.next == sys.maxsize:
                self.unwatch(watch)

    # --- hooks ------------------------------------------------------------------------------------------------

    def around_traces(self, begin: Begin, end: End) -> Patch | None:
        """Call `begin(frame, the type that is traced, its context, the graph to be made, options)` before and
        `end(its result, the concrete function or None)` after every trace."""
        return _bracketed(names.TRACE, begin, end)

    def around_variables(self, begin: Begin, end: End) -> Patch | None:
        """Call `begin(frame, the function, initializers)` before and `end(its result, None)` after a function's
        variables get their first values."""
        return _bracketed(names.VARIABLES, begin, end)

    def around_gradients(self, begin: Begin, end: End) -> Patch | None:
        """Call `begin(frame, what makes them, …)` before and `end(its result, the graphs or None)` after the forward
        and the backward are made of a function that is called under a tape."""
        return _bracketed(names.GRADIENTS, begin, end)

    def around_autograph(self, rewritten: Callable[[int, int], object], least_ns: int) -> Patch | None:
        """Call `rewritten(begin, end)` after a function was rewritten by AutoGraph, where that took `least_ns`."""

        def around(original: Any) -> Any:
            def transform(self: Any, fn: Any, user_context: Any) -> Any:
                began = now()
                try:
                    return original(self, fn, user_context)
                finally:
                    if (ended := now()) - began >= least_ns:
                        rewritten(began, ended)

            return transform

        return _wrapped(names.AUTOGRAPH, around)

    def around_start(self, begin: Begin, end: End) -> Patch | None:
        """Call `begin()` before and `end(its result)` after TensorFlow takes its devices, unless it has them."""
        known = started() if (started := names.STARTED.find()) is not None else None
        if getattr(known, "_initialized", False):
            return None

        def around(original: Any) -> Any:
            def ensure(self: Any) -> None:
                if getattr(self, "_initialized", True):
                    original(self)
                    return
                begun = begin()
                try:
                    original(self)
                finally:
                    end(begun)

            return ensure

        return _wrapped(names.START, around)

    def around_calls(
        self,
        begin: Callable[[Watch, Any], Any],
        end: Callable[[Any], object],
        slow: Callable[[Watch, int, Any], bool | None],
        placed: Callable[[Watch, FrameType], Keep | None],
    ) -> Patch | None:
        """Call `begin(watch, inputs)` before those calls of `watched` graphs that are due, and `end(its result)` after
        those of which it returned something; after any other `slow(watch, when it began, inputs)` where a timed one was
        slow, which returns whether XLA compiled in it; and `placed(watch, frame)` before a call of a followed graph,
        where it comes from another line than the one before: what that returns is called with the ends of the calls
        from there. Of a graph that has long been called from one line only, not each call is held against it.
        """
        dues, clock, looks = self._due, now, _Looks(begin, slow, placed)

        # what follows runs in every step, with caches that hold the step's own data: each thing it touches counts
        def around(original: Any) -> Any:
            def call(self: Any, name: bytes, tensor_inputs: Any, num_outputs: int) -> Any:
                try:
                    due = dues[name]
                except KeyError:
                    due = dues.setdefault(name, None)  # quicker than `get`, for all calls but this one
                if due is None:
                    return original(self, name, tensor_inputs, num_outputs)
                left, margin, keep, watch = due
                if left:
                    due[0] = left - 1  # _LEFT, which would have to be fetched
                else:
                    begun = looks.look(watch, due, tensor_inputs)
                    _, margin, keep, _ = due
                    if begun is not None:
                        try:
                            outputs = original(self, name, tensor_inputs, num_outputs)
                        finally:
                            end(begun)
                        if keep is not None:
                            keep(clock())
                        return outputs
                if margin is None:
                    outputs = original(self, name, tensor_inputs, num_outputs)
                    if keep is not None:
                        keep(clock())
                    return outputs
                began = clock()
                outputs = original(self, name, tensor_inputs, num_outputs)
                over = clock()
                if keep is not None:
                    keep(over)
                if over - began >= margin:
                    looks.time(watch, due, began, over - began, tensor_inputs)
                return outputs

            return call

        return _wrapped(names.CALL, around)

    def around_literals(self, taken: Callable[[], object]) -> Patch | None:
        """Call `taken()` where a number is taken for an equal one of another type."""

        def around(original: Any) -> Any:
            def equal(self: Any, other: Any) -> Any:
                same = original(self, other)
                if same is True and type(self.value) is not type(other.value):
                    taken()
                return same

            return equal

        return _wrapped(names.LITERAL, around)

    # --- what is made -----------------------------------------------------------------------------------------

    def compiler_text(self, concrete: Any, stage: str) -> str | None:
        """XLA's program of a jitted concrete function; None where its shapes are open."""
        if (make := names.COMPILER_IR.find()) is None:
            return None
        try:
            text = make(concrete)(stage=stage)
        except our_errors():  # a shape that is open, a device that cannot say
            return None
        return text.decode(errors="replace") if isinstance(text, bytes) else str(text)

    def graphs_around(self, tensorflow: Any) -> Iterator[Any]:
        """The graph that what this thread runs becomes a part of, and those around it; none where it runs eagerly."""
        inside = getattr(tensorflow, "inside_function", None)
        if inside is None or not inside():
            return
        graph = tensorflow.compat.v1.get_default_graph()
        while graph is not None:
            yield graph
            graph = getattr(graph, "outer_graph", None)

    def variable_now(self, tensorflow: Any, variable: Any) -> Tensor:
        """What a variable is, with the shape that it has just now. Waits for what assigns to it."""
        try:
            dims = tensorflow.raw_ops.VariableShape(input=variable.handle).numpy().tolist()
        except our_errors():  # one that consists of several
            dims = None
        return Tensor(variable.dtype, dims, "variable")

    def sync_devices(self, tensorflow: Any) -> None:
        """Block until everything that was handed to the devices has run."""
        sync = getattr(getattr(getattr(tensorflow, "test", None), "experimental", None), "sync_devices", None)
        if sync is not None:
            sync()


def _bracketed(hook: Hook, begin: Begin, end: End) -> Patch | None:
    """Call `begin(frame, …)` with the caller's frame and what it gives before each call of what the hook names, and
    `end(its result, that of the call)` after it."""

    def around(original: Any) -> Any:
        def call(*args: Any) -> Any:
            begun, made = begin(sys._getframe(1), *args), None
            try:
                made = original(*args)
                return made
            finally:
                end(begun, made)

        return call

    return _wrapped(hook, around)


def _wrapped(hook: Hook, around: Callable[[Any], Any]) -> Patch | None:
    """What the hook names, with `around(it)` in its place; None where it is not there."""
    if (form := hook.form()) is None:
        return None
    module, _, path = form.path.partition(":")
    owner = Form(f"{module}:{path.rpartition('.')[0]}").find()
    original = vars(owner)[form.name]
    return Patch(owner, form.name, _filed(around(original), original))


def _filed(function: Any, original: Any) -> Any:
    """`function` under the name and in the file of what it stands before: TensorFlow takes its own frames out of
    tracebacks, and knows them by their files."""
    code = original.__code__
    function.__code__ = function.__code__.replace(co_filename=code.co_filename, co_name=code.co_name)
    function.__name__, function.__qualname__ = original.__name__, original.__qualname__
    return function


def rest_of(options: Any) -> str | None:
    """The name of the parameter that takes any number of arguments by position."""
    return rest_name(options.polymorphic_type)


def rest_name(type_: Any) -> str | None:
    """The same of a function's type."""
    return next((p.name for p in type_.parameters.values() if p.kind is p.VAR_POSITIONAL), None)


def made_by(variables: Any) -> list[str]:
    """The names of variables that are about to get their first values."""
    return [str(variable.name).partition(":")[0] for variable, _ in variables]


def forward_of(maker: Any) -> Any:
    """The graph whose forward and backward are made."""
    return maker._func_graph


def gradients_of(made: Any) -> list[bytes]:
    """The names of a forward and a backward that were made."""
    return [name for each in (made[0], made[2]) if (name := name_of(each)) is not None]


def name_of(function: Any) -> bytes | None:
    """The name by which the runtime calls a graph."""
    name = getattr(getattr(function, "inference_fn", function), "name", None)
    return name.encode() if isinstance(name, str) else name if isinstance(name, bytes) else None


def graph_text(concrete: Any) -> str:
    """A concrete function's graph, as text."""
    return str(concrete.graph.as_graph_def())


def operations(concrete: Any) -> int | None:
    """How many operations a concrete function's graph has."""
    try:
        return len(concrete.graph.get_operations())
    except our_errors():  # another kind of graph
        return None


def computes_gradients(concrete: Any) -> bool:
    """Whether a concrete function's graph holds operations of a gradient tape's."""
    operations = reversed(concrete.graph.get_operations())  # the last of a step are its gradients
    return any(operation.name.startswith("gradient_tape/") for operation in operations)


def lookup(caller: FrameType) -> tuple[Any, Any, Any] | None:
    """Of a look-up under way on this stack: the options, the type of the call, and the concrete function that is found
    for it. None where there is none."""
    frame = names.LOOK_UP.on_stack(caller)
    if frame is None or "concrete_function" in frame.f_locals:
        return None
    asked, context, options = names.LOOK_UP.local(frame) or (None, None, None)
    if options is None:
        return None
    concrete = options.function_cache.lookup(asked, context)
    return (options, asked, concrete) if concrete is not None else None


# --- functions ------------------------------------------------------------------------------------------------


def layers_of(function: Any) -> Iterator[Any]:
    """A function, and what it wraps, outermost first."""
    for _ in range(_WRAPPERS):
        yield function
        if isinstance(function, MethodType):
            function = function.__func__
        elif isinstance(function, partial):
            function = function.func
        else:
            function = attribute(function, "__wrapped__")
        if function is None:
            return


def instance_of(layers: list[Any]) -> Any:
    """The object whose method a function is; None where it is none."""
    owner: Any = next((layer.__self__ for layer in layers if isinstance(layer, MethodType)), None)
    # in the place of another object a decorated method is bound
    return owner.target if type(owner).__name__ == "TfMethodTarget" else owner


def saved_name(function: Any) -> str | None:
    """What a function of a loaded model was called where it was saved; None of any other function."""
    if not isinstance(function, FunctionType) or function.__module__ != names.SAVED:
        return None
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    held = next((cell.cell_contents for name, cell in cells if name == "saved_function"), None)
    if held is None:  # what wraps one says that it is from there, too
        return None
    graphs = getattr(held, "concrete_functions", None) or ("",)
    known = _GRAPH_NAME.fullmatch(str(graphs[0]))
    return known[1] if known is not None else str(function.__name__)


def is_of_resource(function: Any) -> bool:
    """Whether a function of a loaded model's makes or frees what the model holds: TensorFlow calls it, and no user."""
    return saved_name(function) in names.SAVED_HELPERS


def code_of(function: Any) -> CodeType | None:
    """A function's code, or that of an object's `__call__`."""
    code = attribute(function, "__code__")
    if not isinstance(code, CodeType) and not isinstance(function, (FunctionType, MethodType, type)):
        code = getattr(vars(type(function)).get("__call__"), "__code__", None)
    return code if isinstance(code, CodeType) else None


# --- types ----------------------------------------------------------------------------------------------------


@slotted
class Container:
    """A type that holds others: its text, and their paths within it."""

    text: str
    parts: list[tuple[str, Any]] = field(default_factory=list)


@slotted
class Value:
    """A Python value, compiled in."""

    value: Any


@slotted
class Held:
    """An object that is remembered by a weak reference; None where it is gone."""

    object: Any


@slotted
class Tensor:
    """A tensor, or what consists of some: element type, dimensions (None: its rank is open), the kind if it is not a
    plain one, and what it shares with others."""

    dtype: Any
    dims: list[int | None] | None
    kind: str = ""
    alias: Any = None
    frozen: bool = False


@slotted
class Other:
    """A type of which nothing but its name is known."""

    name: str


Part = Container | Value | Held | Tensor | Other


def part_of(type_: Any) -> Part:
    """The contents of one type of TensorFlow's for a value. Live objects: for use inside the hook only."""
    name = type(type_).__name__
    if isinstance(type_, (tuple, list)):  # of what a data set consists
        return _sequence("tuple" if isinstance(type_, tuple) else "list", type_)
    if isinstance(type_, dict):
        return _mapping(type_)
    if not type(type_).__module__.startswith(("tensorflow.", "keras.")):
        return Other(name)
    match name:
        case "Literal":
            return Value(type_.value)
        case "Weakref":
            return Held(type_._ref())
        case "Dict":
            return _mapping(type_.mapping)
        case "Tuple":
            return _sequence("tuple", type_.components)
        case "List":
            return _sequence("list", type_.components_tuple.components)
        case "NamedTuple":
            return _named(type_)
        case "Attrs":
            return _named(type_.named_attributes)
        case "PerReplicaSpec":
            return _sequence("replicas", type_._value_specs)
    element = getattr(type_, "element_spec", None) or getattr(type_, "_element_spec", None)
    if element is not None and not callable(element):  # a data set, or an iterator over one
        return Container(_kind(name), [(ELEMENT, element)])
    if hasattr(type_, "dtype") and hasattr(type_, "shape"):
        return _tensor(type_, name)
    return Other(name)


def _sequence(kind: str, parts: Any) -> Container:
    return Container(f"{kind} of {len(parts)}", [(f"[{at}]", part) for at, part in enumerate(parts)])


def _mapping(parts: Any) -> Container:
    keys = ", ".join(map(_key, parts))
    return Container(f"{{{keys}}}", [(f"[{_key(key)}]", part) for key, part in parts.items()])


def _named(type_: Any) -> Container:
    names = [str(name) for name in type_.attribute_names]
    text = f"{type_.type_name}({', '.join(names)})"
    return Container(text, [(f".{name}", part) for name, part in zip(names, type_.attributes.components, strict=True)])


def _tensor(type_: Any, name: str) -> Tensor:
    rank = getattr(type_.shape, "rank", None)
    dims = [getattr(size, "value", size) for size in type_.shape] if rank is not None else None
    kind = "" if name == "TensorSpec" else _kind(name)
    frozen = kind == "variable" and not getattr(type_, "trainable", True)
    return Tensor(type_.dtype, dims, kind, getattr(type_, "alias_id", None), frozen)


def shape_of(tensor: Any) -> Tensor:
    """What a tensor that is there is."""
    is_variable = tensor.dtype.name == "resource"  # whose own shape is the graph's
    return Tensor(tensor.dtype, None if is_variable else list(tensor.shape))


def open_variables(concrete: Any) -> list[Any]:
    """The variables that a graph holds, and that may come to have another shape."""
    return [variable for variable in concrete.graph.variables if not variable.shape.is_fully_defined()]


def small_value(tensor: Any, most: int) -> str | None:
    """The value of a tensor of a few integers in the machine's own memory, as text; None for any other."""
    is_small = tensor.dtype.is_integer and tensor.shape.num_elements() <= most and "CPU" in tensor.device
    return str(tensor.numpy().tolist()) if is_small else None


def _kind(name: str) -> str:
    """ "RaggedTensorSpec" as "ragged"."""
    return (name.removesuffix("Spec").removesuffix("Tensor") or name).lower()


def _key(key: Any) -> str:
    return repr(key) if type(key) in (str, int, bool, float) else type(key).__name__


def parameters(type_: Any) -> Iterator[tuple[str, Any]]:
    """The parameters of a function's type, and the type of each; of one that was not given, none."""
    for name, parameter in type_.parameters.items():
        if (constraint := parameter.type_constraint) is not None:
            yield name, constraint


def parts(context: Any, *, bare: bool) -> Iterator[tuple[str, Any, Any]]:
    """What a call was made under: name, value, and what it usually is; `bare` where the context is not wrapped."""
    inner = context if bare else getattr(context, "context", None)
    for name in getattr(inner, "_fields", ()):
        yield name, getattr(inner, name), _USUAL.get(name)
