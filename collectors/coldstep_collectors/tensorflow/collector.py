"""Shows what TensorFlow compiles: the traces of every `tf.function`, the first call of each graph, and XLA below them.

A trace is announced by TensorFlow's own tracer. That XLA compiles again below a trace nothing announces: a call that
was slow is held against the shapes that the graph has been called with, and the executable memory of the process.
"""

from __future__ import annotations

import re
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from itertools import takewhile
from threading import get_ident
from types import CodeType, FrameType
from typing import Any

from coldstep import context as forms
from coldstep import marks
from coldstep._util.slotted import slotted_object
from coldstep.blind_spots import Unseen
from coldstep.candidates import Candidate
from coldstep.clock import now
from coldstep.collector import SessionSink, own_time
from coldstep.events import Args, Begin, End, Finding, emit_whole
from coldstep.places import frames, location
from coldstep_collectors.captures import LOSS_WEIGHTS, Captures
from coldstep_collectors.names import unknown_version
from coldstep_collectors.patch import Patch, undo_all
from coldstep_collectors.source_lines import assigned_before
from coldstep_collectors.steps.call_sites import CallSites
from coldstep_collectors.tensorflow._private import hooks as private
from coldstep_collectors.tensorflow._private import keras_models, programs
from coldstep_collectors.tensorflow._private.hooks import Internals, Keep, Tracing, Watch, instance_of
from coldstep_collectors.tensorflow._private.names import NEWEST
from coldstep_collectors.tensorflow.compiled_again import CompiledAgain
from coldstep_collectors.tensorflow.compiles import Compile
from coldstep_collectors.tensorflow.describe import Describer
from coldstep_collectors.tensorflow.direct_calls import DirectCalls
from coldstep_collectors.tensorflow.eager_steps import EagerSteps
from coldstep_collectors.tensorflow.slow_calls import TRACK, XLA, SlowCalls
from coldstep_collectors.tensorflow.user_code import failure
from coldstep_collectors.values import Numbers, quoted

TRACE, AUTOGRAPH, VARIABLES = "tensorflow.trace", "tensorflow.autograph", "tensorflow.variables"
GRADIENT, GRAPPLER = "tensorflow.gradient", "tensorflow.grappler"
CONTEXT = "tensorflow.context"
_AUTOGRAPH_NS = 200_000  # of a function that is rewritten: below that it was remembered
_LOOKED_AT_CALLS = 8  # the first calls of a graph, before each of which it is asked what has changed; then ever fewer
_NOT_RECORDED = (
    Unseen("devices, and what ran on them (TensorFlow's own profiler records that)"),
    Unseen("Grappler, XLA and the first run by themselves: they are one call"),
)
_GRAPH = forms.CONFIG.key("graph")
_MOST_TOLD = 100  # equal numbers
# Python: "-1", "0.5", "True"
_NUMBER = re.compile(r"-?\d[\d.e+-]*|True|False")
_EAGERLY = "tf.config.run_functions_eagerly(True): every tf.function ran as plain Python, and none was traced."
_PASS = "Pass {name} as an argument, as a tensor; or keep it in a tf.Variable, and assign to that."
_COMPILE_AGAIN = "Call compile() again after {name} is set: Keras reads it once, as it traces."
_IN_A_LAYER = (
    "Keep {name} in a keras.Variable, and assign to that; or call the model itself, model(x), which reads it each "
    "time: Keras' loops read it once, as they trace."
)
_WEIGHTS = "Make each of the weights a keras.Variable, and assign to that: Keras reads them once, as it traces."
_ONE_TYPE = "Pass {name} with one type at every call, float({name}) or int({name}); or as a tensor."


@slotted_object
class _Open:
    """A segment under way on a thread."""

    compile: Compile
    begin: Begin
    phase: Begin
    handling: int
    """The id of the exception that was being handled when it began: not its own."""
    parent: Compile | None = None
    """Of a trace: the one that it is a part of."""
    rest: str | None = None
    """The parameter of a traced function that takes any number of arguments."""
    in_method: bool = False
    """Whether a library's method runs it, as a Keras model's does."""
    inputs: Any = None
    """What a first call was given: for use inside the hook only."""


class _Thread(threading.local):
    def __init__(self) -> None:
        self.traces: list[_Open] = []
        self.last: Compile | None = None  # whose trace was the last to end
        self.variables = 0  # functions whose variables are being made
        self.looks = False  # for a variant itself


class TensorFlow:
    """The collector `tensorflow`."""

    name = "tensorflow"

    def __init__(self) -> None:
        self._patches: list[Patch] = []
        self._thread = _Thread()
        self._first: weakref.WeakKeyDictionary[Any, Compile] = weakref.WeakKeyDictionary()
        self._being_traced: weakref.WeakKeyDictionary[Any, Compile] = weakref.WeakKeyDictionary()
        self._of_graph: weakref.WeakKeyDictionary[Any, Compile] = weakref.WeakKeyDictionary()
        self._known: set[tuple[str, str]] = set()
        self._numbers = Numbers()
        self._told: set[tuple[Any, ...]] = set()
        self._candidates: dict[tuple[Any, ...], Candidate | None] = {}
        self._codes: list[CodeType] = []
        self._sees_literals = False
        self._tensorflow: Any = None
        self._eager: EagerSteps | None = None

    def start(self, sink: SessionSink) -> None:
        """Attach when TensorFlow is there."""
        self._sink = sink
        self._sites = CallSites(sink)
        sink.when_imported("tensorflow", self._attach)

    def stop(self) -> list[str]:
        """Put back every hook that is still ours."""
        if self._tensorflow is not None:
            if _runs_eagerly(self._tensorflow):
                self._sink.note(_EAGERLY)
            self._internals.unwatch_all()
        left = self._eager.stop(traced=bool(self._known)) if self._eager is not None else []
        left += undo_all(self._patches)
        for known in (self._first, self._of_graph, self._being_traced):
            known.clear()
        return left

    def _attach(self, tensorflow: Any) -> None:
        sink, internals = self._sink, Internals()
        self._tensorflow, self._internals = tensorflow, internals
        self._describer = Describer(tensorflow)
        self._slow_calls = SlowCalls(sink, tensorflow, internals)
        late = internals.has_traced()

        def ours(hook: Any) -> Any:
            return sink.guarded(self.name, hook)

        on_calls = map(ours, (self._call_begins, self._call_ended, self._slow_calls.was_slow, self._placed))
        patches = (
            internals.around_traces(ours(self._trace_begins), ours(self._trace_ended)),
            internals.around_variables(ours(self._variables_begin), ours(self._variables_end)),
            internals.around_gradients(ours(self._gradient_begins), ours(self._gradient_ended)),
            internals.around_autograph(ours(self._rewritten), _AUTOGRAPH_NS),
            internals.around_calls(*on_calls),
            internals.around_start(ours(self._start_begins), ours(self._start_ended)),
        )
        self._on_start = patches[-1]
        self._patches += filter(None, patches)
        for mark in (marks.step, marks.steps, marks.annotate, marks.wait):
            # AutoGraph rewrites every function that a traced one calls, but for those that have this
            vars(mark).setdefault("autograph_info__", {})
        if (inside := getattr(tensorflow, "inside_function", None)) is not None:
            sink.is_tracing(inside)
        sink.on_wait(self._wait)
        sink.on_first_mark(internals.follow_no_more)
        state = "late" if late else "partial" if internals.missing else "attached"
        if _runs_eagerly(tensorflow):
            sink.note(_EAGERLY)
        self._eager = EagerSteps(sink, tensorflow, self._sites, ours)
        self._again = CompiledAgain(self._describer.places)
        self._direct = DirectCalls(tensorflow, self._describer.places, sink.emit)
        sink.when_imported(keras_models.MODULE, self._attach_to_models)
        version = str(getattr(tensorflow, "__version__", ""))
        if (newer := unknown_version("TensorFlow", version, NEWEST)) is not None:
            sink.note(newer)
        sink.state(self.name, state, version, [*internals.missing, *_NOT_RECORDED])

    def _attach_to_models(self, module: Any) -> None:
        missing: list[str] = []
        on_compile = [self._sink.guarded(self.name, each.compiled) for each in (self._direct, self._again)]
        on_call = self._sink.guarded(self.name, self._direct.called)
        self._patches += keras_models.around_models(module, on_compile, on_call, missing)
        for words in missing:
            self._sink.note(f"Not observed: {words}.")

    def _wait(self, x: Any) -> None:
        if any(_is_on_device(leaf) for leaf in _leaves(x)):
            self._internals.sync_devices(self._tensorflow)

    # --- traces -----------------------------------------------------------------------------------------------

    def _trace_begins(self, frame: FrameType, traced: Any, _: Any, graph: Any, options: Any) -> _Open | None:
        thread, tracing = self._thread, Tracing.of(frame, traced, options)
        if thread.variables and tracing.scope == "NO_SCOPE":
            return None  # a part of the making of variables
        ns = now()
        parent = thread.traces[-1].compile if thread.traces else self._around()
        layers, model = tracing.layers(), tracing.model()
        parts = self._describer.parts(keras_models.layers_of(model), frame)
        of = instance_of(layers), self._describer.places, self._numbers
        captures = Captures(layers, *of, parts, set_up=keras_models.set_up_of(model))
        method = self._describer.running_method(frame)
        about = self._describer.describe(tracing, method, captures.context(), inner=parent is not None)
        is_watched = about["origin"] == "user" and parent is None
        compile = self._compile_of(tracing, about, captures if is_watched else None)
        compile.traced += 1
        compile.of_model = bool(parts)
        part = "trace" if compile.traced == 1 else "second_trace"
        args: Args = {"part": part, **compile.about, "parent": parent.id if parent is not None else None}
        if compile.traced == 1 and parent is None and (before := self._before(tracing, about)):
            args |= {"earlier": True, "before": before}
        if compile.made:
            args["variables"] = compile.made
        opened = self._open(ns, compile, args, TRACE)
        opened.rest, opened.parent, opened.in_method = tracing.rest(), parent, method is not None
        thread.traces.append(opened)
        self._being_traced[graph] = compile
        return opened

    def _trace_ended(self, opened: _Open | None, concrete: Any) -> None:
        thread = self._thread
        if opened is None or opened not in thread.traces:
            return
        ns = now()
        while thread.traces.pop() is not opened:
            continue
        compile, parent = opened.compile, opened.parent
        if concrete is None:
            error = sys.exc_info()[1]
            failed = parent is None and error is not None and id(error) != opened.handling
            about = failure(error) if failed and error is not None else {}
            self._close(ns, opened, {"outcome": "failed" if failed else "traced_only", **about})
            return
        compile.holds_xla |= compile.jitted
        if parent is not None:
            parent.holds_xla |= compile.holds_xla
        # into a graph of the old kind, that of a session, it is never called by name
        made: Args = {"outcome": "compiled" if _GRAPH in compile.about["context"] else "traced_only"}
        if (operations := private.operations(concrete)) is not None:
            made["operations"] = {"func_graph": operations}
        is_users = compile.about["origin"] == "user" and parent is None
        if is_users and opened.in_method:
            made |= self._again.about(self._describer.running_model(sys._getframe(1)))
        self._close(ns, opened, made)
        if is_users:
            self._keep_ir(compile, concrete)
        if compile.captures is not None:
            compile.captures.remember()
        thread.last = compile
        if (graph := getattr(concrete, "graph", None)) is not None:
            self._of_graph[graph] = compile
            compile.graph = weakref.ref(graph)
        compile.paths = self._describer.tensors(concrete.function_type, opened.rest)
        compile.variables = _variables(compile, concrete) if compile.holds_xla else []
        if (name := private.name_of(concrete)) is not None:
            self._watch(name, compile, gradients=parent is None and private.computes_gradients(concrete))

    def _around(self) -> Compile | None:
        """The trace that goes on on another thread while this one adds to its graph, for a replica of a strategy."""
        graphs = self._internals.graphs_around(self._tensorflow)
        return next(filter(None, map(self._being_traced.get, graphs)), None)

    def _compile_of(self, tracing: Tracing, about: Args, captures: Captures | None) -> Compile:
        """The compile whose first trace made variables, where this is its second; else a new one."""
        inputs = tuple((row["argument"], row["type"]) for row in about["inputs"] or ())
        signature = about["identity"], inputs, about["context"].get("tree")
        owner, scope = tracing.owner, tracing.scope
        first = self._first.get(owner) if owner is not None and scope == "NO_VARIABLE_CREATION" else None
        if first is not None and (first.traced, first.called, first.signature) == (1, False, signature):
            first.captures = captures
            return first
        compile = Compile(self._sink.new_compile(), about, signature, tracing.jitted, captures)
        if owner is not None and scope == "VARIABLE_CREATION":
            self._first[owner] = compile
        if any(_NUMBER.fullmatch(row["type"]) for row in about["inputs"] or ()):
            self._watch_literals()
        return compile

    def _before(self, tracing: Tracing, about: Args) -> list[Args]:
        """The variants that the function has from before the trace, the first time that it is met."""
        key = about["identity"], about["context"].get("function", "")
        if key in self._known or not about["identity"]:
            return []
        self._known.add(key)
        return self._describer.earlier(tracing, about)

    def _keep_ir(self, compile: Compile, concrete: Any) -> None:
        self._sink.keep_ir(compile.id, "func_graph", partial(private.graph_text, concrete))
        if compile.jitted:
            self._sink.keep_ir(compile.id, "stablehlo", partial(self._internals.compiler_text, concrete, "stablehlo"))

    # --- parts of a first call --------------------------------------------------------------------------------

    def _variables_begin(self, _frame: FrameType, _function: Any, initializers: Any) -> _Open | None:
        ns, thread, names = now(), self._thread, private.made_by(initializers)
        if (compile := thread.last) is None or not names:
            return None
        thread.variables += 1
        compile.made += names
        return self._open(ns, compile, {"part": "variables"}, VARIABLES)

    def _variables_end(self, opened: _Open | None, _made: Any) -> None:
        if opened is not None:
            self._thread.variables -= 1
            self._close(now(), opened, {})

    def _gradient_begins(self, _frame: FrameType, maker: Any, *_: Any) -> _Open | None:
        ns = now()
        compile = self._of_graph.get(private.forward_of(maker))
        return self._open(ns, compile, {"part": "backward"}, GRADIENT) if compile is not None else None

    def _gradient_ended(self, opened: _Open | None, made: Any) -> None:
        if opened is None:
            return
        self._close(now(), opened, {})
        for name in private.gradients_of(made) if made is not None else ():
            self._watch(name, opened.compile, gradients=True)

    def _rewritten(self, began: int, ended: int) -> None:
        emit_whole(self._sink.emit, Begin(began, AUTOGRAPH, TRACK, AUTOGRAPH), ended)

    def _start_begins(self) -> Begin:
        begin = Begin(now(), CONTEXT, TRACK, CONTEXT)
        self._sink.emit(begin)
        return begin

    def _start_ended(self, begin: Begin | None) -> None:
        if begin is not None:
            self._sink.emit(End(now(), begin))
        if self._on_start is not None:  # it is called several times per operation, and has nothing more to tell
            self._patches.remove(self._on_start)
            self._on_start.undo()

    # --- calls ------------------------------------------------------------------------------------------------

    def _call_begins(self, watch: Watch, inputs: Any) -> tuple[Watch, _Open] | None:
        compile: Compile = watch.of
        if watch.calls > 1:
            watch.next = watch.calls + 1 if watch.calls < _LOOKED_AT_CALLS else 2 * watch.calls
            self._look_for_stale(compile)
            return None
        self._name(compile)
        ns = now()
        part = "backward" if watch.name.startswith((private.BACKWARD, private.FORWARD)) else "first_call"
        opened = self._open(ns, compile, {"part": part}, XLA if compile.holds_xla else GRAPPLER)
        opened.inputs = inputs if compile.holds_xla else None
        return watch, opened

    def _name(self, compile: Compile) -> None:
        """Have the program named, once; not all that is traced is called."""
        graph = compile.graph() if compile.graph is not None and compile.program is None else None
        if graph is None:
            return
        with own_time(self._sink.emit, "look at the graph"):
            compile.program = programs.Naming(graph)
        self._sink.meanwhile(compile.program.make)

    def _call_ended(self, begun: tuple[Watch, _Open]) -> None:
        ns, (watch, opened) = now(), begun
        compile = opened.compile
        if (error := sys.exc_info()[1]) is not None and id(error) != opened.handling and compile.jitted:
            self._close(ns, opened, {"outcome": "failed", **failure(error)})
        else:
            self._close(ns, opened, {"outcome": "compiled"}, compile.program.args if compile.program else None)
        compile.called = True
        if compile.holds_xla:
            watch.timed = True
            if (call := self._slow_calls.call(compile, opened.inputs)) is not None:
                compile.seen.setdefault(call.shapes, call)
            self._slow_calls.begin()
        opened.inputs = None
        if compile.captures:
            watch.next = 2
        elif watch.timed or watch.followed:
            watch.next = sys.maxsize
        else:
            self._internals.unwatch(watch)

    def _watch(self, name: bytes, compile: Compile, *, gradients: bool) -> None:
        """Look at what is called under that name from now on."""
        is_users = compile.about["origin"] == "user" and not name.startswith(private.BACKWARD)
        self._internals.watch(Watch(name, compile, followed=self._sink.infers and is_users))
        compile.gradients |= gradients

    def _placed(self, watch: Watch, called: FrameType) -> Keep | None:
        """Have the ends of calls that are made from where `called` is called now kept, at the user's line: they may be
        steps."""
        if (users := self._sites.users_frame(called)) is None:
            watch.line = None
            return None
        watch.depth = sum(1 for _ in takewhile(lambda each: each is not users, frames(called)))
        watch.line = users.f_code, users.f_lasti, get_ident()
        sites, key = watch.of.sites, (id(users.f_code), *watch.line[1:])
        if key not in sites:
            sites[key] = self._site(watch.of, users)
        site = sites[key]
        return site.calls.append if site is not None else None

    def _site(self, compile: Compile, users: FrameType) -> Candidate | None:
        """The line as a candidate, the same for all variants of a function."""
        place = compile.about["identity"], id(users.f_code), users.f_lasti, get_ident()
        if place not in self._candidates:
            self._codes.append(users.f_code)  # while it lives its id is its own
            made = self._sites.candidate("call", compile.about["function"], users, gradients=compile.gradients)
            if made is not None:
                made.looked = 1  # all that it keeps is in variables: there are no results to follow
            self._candidates[place] = made
        return self._candidates[place]

    # --- what no trace tells ----------------------------------------------------------------------------------

    def _look_for_stale(self, compile: Compile) -> None:
        """Tell what the graph that is about to run holds as it was, and is not any more."""
        name = compile.about["function"]
        for each in compile.captures.changed() if compile.captures is not None else ():
            key = compile.about["identity"], each.name, each.was, each.now
            if key not in self._told:  # of another variant
                self._told.add(key)
                change = f"it was {quoted(each.was)} when it was traced, now {quoted(each.now)}"
                text = f"{name} does not see that {each.name} has changed: {change}"
                is_flag = each.name.endswith(".trainable")
                advice = _PASS if not compile.of_model else _COMPILE_AGAIN if is_flag else _IN_A_LAYER
                advice = _WEIGHTS if each.name == LOSS_WEIGHTS else advice
                changed_at = self._changed_at(each.name) if compile.of_model else None
                self._tell("stale_capture", text, compile.id, advice.format(name=each.name), changed_at)

    def _changed_at(self, name: str) -> Args | None:
        """The assignment that changed it, as far as the file of the call shows one."""
        if (frame := self._describer.places.users_frame(sys._getframe(1))) is None:
            return None
        code = frame.f_code
        line = assigned_before(code.co_filename, frame.f_lineno or 0, name)
        return location(code.co_filename, line, code.co_qualname) if line is not None else None

    def _watch_literals(self) -> None:
        """Look for numbers that are taken for equal ones of another type, from the first number in a key on."""
        if not self._sees_literals:
            self._sees_literals = True
            guarded = self._sink.guarded(self.name, self._same_literal)
            self._patches += filter(None, [self._internals.around_literals(guarded)])

    def _same_literal(self) -> None:
        thread = self._thread
        if thread.looks or len(self._told) > _MOST_TOLD:
            return
        thread.looks = True  # the look-up asks again
        try:
            lookup = private.lookup(sys._getframe(1))
        finally:
            thread.looks = False
        if lookup is None:
            return
        options, asked, concrete = lookup
        values, variants = (dict(self._describer.values(each, options)) for each in (asked, concrete.function_type))
        compile = self._of_graph.get(concrete.graph)
        for path, value in values.items():
            held = variants.get(path, value)
            key = id(concrete), path, value
            if held == value or key in self._told:
                continue
            self._told.add(key)
            name = compile.about["function"] if compile is not None else options.name
            was, now_ = quoted(held), quoted(value)
            text = f"{name} was called with {path} {now_}, and ran the graph traced for {was}: equal, to TensorFlow"
            self._tell("literal_equal", text, compile.id if compile is not None else None, _ONE_TYPE.format(name=path))

    def _tell(self, kind: str, text: str, compile: str | None, advice: str, place: Args | None = None) -> None:
        self._sink.emit(Finding(now(), kind, "warning", text, TRACK, compile, advice=advice, location=place))

    # --- segments ---------------------------------------------------------------------------------------------

    def _open(self, ns: int, compile: Compile, args: Args, phase: str) -> _Open:
        begin = Begin(ns, compile.about["function"], TRACK, compile=compile.id, args=args)
        opened = _Open(compile, begin, Begin(ns, phase, TRACK, phase), id(sys.exc_info()[1]))
        self._sink.emit(begin)
        self._sink.emit(opened.phase)
        self._sink.compile_opened()
        self._sink.wake()
        return opened

    def _close(self, ns: int, opened: _Open, args: Args, later: Callable[[], Args] | None = None) -> None:
        self._sink.emit(End(ns, opened.phase))
        self._sink.emit(End(ns, opened.begin, args, later))
        self._sink.compile_closed()


def _variables(compile: Compile, concrete: Any) -> list[tuple[str, weakref.ref[Any]]]:
    variables = []
    for variable in private.open_variables(concrete):
        name = compile.captures.name_of(variable) if compile.captures is not None else None
        variables.append((name or str(variable.name).partition(":")[0], weakref.ref(variable)))
    return variables


def _leaves(x: Any) -> Iterator[Any]:
    if isinstance(x, dict):
        x = list(x.values())
    if isinstance(x, (list, tuple)):
        for part in x:
            yield from _leaves(part)
    else:
        yield x


def _runs_eagerly(tensorflow: Any) -> bool:
    """Whether a program has asked that no tf.function be compiled."""
    is_asked = getattr(getattr(tensorflow, "config", None), "functions_run_eagerly", None)
    return is_asked is not None and is_asked()


def _is_on_device(leaf: Any) -> bool:
    """Whether a tensor or variable of TensorFlow's may still be computed when a call has returned."""
    if not type(leaf).__module__.startswith("tensorflow."):
        return False
    device = getattr(leaf, "device", None)
    return isinstance(device, str) and "CPU" not in device
