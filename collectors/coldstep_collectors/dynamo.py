"""Shows what Dynamo compiles: every frame with its inputs, what made it compile again, and where its graph broke."""

from __future__ import annotations

import dis
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from coldstep import context as forms
from coldstep.claims import Unseen
from coldstep.clock import now
from coldstep.collector import Sink
from coldstep.events import NOTHING, Args, GraphBreak
from coldstep.places import Places, location, module_of
from coldstep_collectors._private import torch as private
from coldstep_collectors._private.torch import Compile, CompilingFrame, Segment
from coldstep_collectors.graph_breaks import Breaks, inlined_chain, kind_of
from coldstep_collectors.values import Numbers, dtype_text, first_lines

_TEXT_LIMIT = 200
_WORDS_LIMIT = 2000
_LEAVES_LIMIT = 256
_DEPTH_LIMIT = 6
_OURS = ("coldstep", "coldstep_collectors", "coldstep_viewers")


class Dynamo:
    """The collector `dynamo`."""

    name = "dynamo"

    def start(self, sink: Sink) -> None:
        """Attach when torch is there."""
        self._sink = sink
        self._torch: Any = None
        self._missing: list[str] = []
        self._sees_regions = True
        self._late: bool | None = False
        self._breaks = Breaks()
        self._epochs = Epochs()
        self._spans = private.spans(sink)
        self._spans.segments = _Guarded(sink.guarded(self.name, self._open), sink.guarded(self.name, self._close))
        self._artifacts = private.Artifacts(sink.guarded(self.name, self._artifact), self._spans, sink)
        sink.when_imported("torch", self._attach)
        sink.when_imported(private.FRAMES_MODULE, self._look_for_frames)
        sink.when_imported(private.REGIONS_MODULE, self._look_for_regions)
        self._spans.join(self.name, self._tell)

    def stop(self) -> list[str]:
        """Put back every hook that is still ours."""
        self._spans.segments = None
        left = self._artifacts.remove()
        return [*([left] if left else []), *self._spans.leave(self.name)]

    def _attach(self, torch: Any) -> None:
        self._torch = torch
        self._describer = _Describer(torch, lambda: self._sees_regions)
        self._late = private.has_compiled()
        if (unseen := self._artifacts.install()) is not None:
            self._missing.append(unseen)
        self._sink.on_wait(self._wait)
        self._tell()

    def _look_for_frames(self, module: ModuleType) -> None:
        if unseen := private.unseen_frames(module):
            self._missing += unseen
            self._tell()

    def _look_for_regions(self, module: ModuleType) -> None:
        if unseen := private.unseen_regions(module):
            self._sees_regions = False
            self._missing += unseen
            self._tell()

    def _tell(self) -> None:
        if self._torch is None:
            return
        missing = [*self._missing, *self._spans.missing]
        if self._late is None:
            missing.append(Unseen("whether anything was compiled before the trace"))
        state = "late" if self._late or self._late is None else "partial" if missing else "attached"
        self._sink.state(self.name, state, getattr(self._torch, "__version__", None), missing)

    def _wait(self, x: Any) -> None:
        cuda = self._torch.cuda
        if cuda.is_initialized():
            tensors = [part for _, part in _parts("", x) if isinstance(part, self._torch.Tensor)]
            for device in {tensor.device for tensor in tensors if tensor.is_cuda}:
                cuda.synchronize(device)

    # --- compiles ---------------------------------------------------------------------------------------------

    def _open(self, part: str, enclosing: Segment | None) -> tuple[Segment, Args] | None:
        if self._torch is None:
            return None
        args: Args = {"part": part}
        if part == "forward":
            frame = private.compiling_frame()
            if frame is None:
                return None
            compile, about = self._describe(frame)
            args |= about
            args["parent"] = enclosing.compile.id if enclosing else None
        else:
            found = self._spans.remembered()
            if found is None or (enclosing and enclosing.compile is found and part == enclosing.part):
                return None  # its forward was compiled before this trace; or a part of this backward
            compile = found
        whole = enclosing is None or enclosing.compile is not compile
        return Segment(compile, part, whole, enclosing is None, id(sys.exc_info()[1])), args

    def _describe(self, frame: CompilingFrame) -> tuple[Compile, Args]:
        code = frame.code
        went_on = private.resumed(code.co_name)
        place = code.co_filename, went_on[0] if went_on else code.co_name
        earlier = self._late is not False and self._epochs.began_before(frame)
        about = self._describer.describe(frame, self._epochs.of(frame.frame_id, frame.frame_compile_id))
        if earlier:
            about["earlier"] = True
        compile = Compile(self._sink.new_compile(), about["function"], place)
        self._spans.remember(compile)
        self._breaks.compiling(place)
        about["limit"] = private.recompile_limit()
        if went_on:
            about["caused_by"] = self._breaks.cause_of(place, went_on[1])
        return compile, about

    def _close(self, segment: Segment, metadata: Mapping[str, Any] | None) -> Args | None:
        compile = segment.compile
        if not segment.whole:
            return None
        error = sys.exc_info()[1]
        if error is not None and id(error) == segment.handling:
            error = None
        metadata = metadata or {}
        self._complete_caches(compile, metadata)
        args: Args = {}
        if segment.part == "forward":
            compile.outcome, said = _outcome(metadata, error)
            args |= self._made(compile, metadata, error)
        else:
            said = first_lines(str(error)) if error is not None else None
            compile.outcome = "failed" if error is not None else compile.outcome
        if compile.outcome == "compiled" and is_loaded(compile):
            compile.outcome = "cache_hit"
        elif compile.outcome == "cache_hit" and not is_loaded(compile):
            compile.outcome = "compiled"
        args["outcome"] = compile.outcome
        if compile.failures:
            args["guard_failures"] = compile.failures
            args["guarded"] = compile.guarded
        if compile.caches:
            args["caches"] = compile.cache_rows()
        if said is not None:
            args["error"] = said
        return args

    def _made(self, compile: Compile, metadata: Mapping[str, Any], error: BaseException | None) -> Args:
        """What is known of a frame only when Dynamo is done with it."""
        args: Args = {}
        if compile.outcome == "failed" and error is not None:
            if (reason := private.break_reason(str(error))) is not None and reason.stack:
                private.complete_stack(reason)
                args["failure"] = self._about(compile, reason)
        elif compile.outcome == "skipped" and (why := private.given_up(error)) is not None:
            args["given_up"] = first_lines(why)
        elif compile.outcome == "compiled" and (frame := private.compiling_frame()) is not None:
            dynamic = self._describer.dynamic(frame)
            if dynamic is not None:
                args["dynamic"] = dynamic or NOTHING
        if isinstance(operations := metadata.get("graph_op_count"), int):
            args["operations"] = {"fx": operations}
        limit, before = private.recompile_limit(), metadata.get("cache_size")
        if limit is not None and isinstance(before, int):
            args["room"] = max(0, limit - before - 1)
        return args

    def _complete_caches(self, compile: Compile, metadata: Mapping[str, Any]) -> None:
        """What no instant told: graphs that came along with an AOTAutograd hit, and caches that are off."""
        told = {layer for layer, _ in compile.caches}
        if private.FX_GRAPH not in told and private.loaded_graphs(metadata):
            compile.add_cache(private.FX_GRAPH, "hit", None)
        if compile.inductor:
            for layer in (private.FX_GRAPH, private.AOT_AUTOGRAD):
                if layer not in told and private.cache_is_off(layer):
                    compile.add_cache(layer, "off", None)

    # --- graph breaks -----------------------------------------------------------------------------------------

    def _artifact(self, name: str, payload: str) -> None:
        segment = self._spans.current()
        if segment is None:
            return
        if name in private.IR_EVENTS:
            self._sink.keep_ir(segment.compile.id, private.IR_EVENTS[name], lambda: payload)
        elif name == private.RECOMPILE_REASONS:
            reasons = [text[:_WORDS_LIMIT] for text in private.recompile_reasons(payload)]
            segment.compile.failures = reasons
            if (frame := private.compiling_frame()) is not None:
                segment.compile.guarded = self._describer.guarded(frame, reasons)
        elif name == private.BREAK_REASON and (said := private.break_reason(payload)) is not None:
            private.complete_stack(said)
            if said.whole_frame and (frame := private.compiling_frame()) is not None:
                [(_, line, _), *_] = inlined_chain(segment.compile.frame, said)
                if _is_in_loop(frame.code, line):
                    said.reason += " (inside a loop, where PyTorch cannot cut the graph in two)"
            self._break(segment.compile, said)

    def _break(self, compile: Compile, said: private.BreakReason) -> None:
        known = self._breaks.found(compile, said)
        if known is None:
            return
        self._sink.emit(GraphBreak(now(), known, compile.id, self._about(compile, said)))

    def _about(self, compile: Compile, said: private.BreakReason) -> Args:
        """A break's arguments, as `GraphBreak` lists them."""
        places = self._describer.places
        stack = [location(*place) for place in said.stack if places.is_users(place[0])]
        innermost = said.stack[-1] if said.stack else None
        where = stack[-1] if stack else location(*innermost) if innermost else None
        args: Args = {
            "reason": said.reason[:_WORDS_LIMIT],
            "kind": kind_of(said),
            "function": where["function"] if where else compile.frame[1],
            "location": where,
            "stack": stack,
            "hints": said.hints,
        }
        if innermost is not None and stack and not places.is_users(innermost[0]):
            args["library"] = module_of(said.skipped_file or innermost[0])
            args["below"] = location(*innermost) | {"module": module_of(innermost[0])}
        return args


@dataclass(slots=True, frozen=True)
class _Guarded:
    """A collector's segments behind the circuit breaker."""

    open: Any
    close: Any


class Epochs:
    """Counts the resets of Dynamo, after which its ids begin again."""

    def __init__(self) -> None:
        self._epoch = 0
        self._compiles: dict[int, int] = {}

    def began_before(self, frame: CompilingFrame) -> bool:
        """Whether this code was compiled before the trace: it has been, by its number, and no such compile was seen."""
        return frame.frame_compile_id > 0 and frame.frame_id not in self._compiles

    def of(self, frame_id: int, number: int) -> int:
        """The epoch of a compile by its numbers; those that cannot follow the ones before begin a new one."""
        again = number <= self._compiles.get(frame_id, -1)
        if again or (number == 0 and any(known > frame_id for known in self._compiles)):
            self._epoch += 1
            self._compiles.clear()
        self._compiles[frame_id] = number
        return self._epoch


def _is_in_loop(code: CodeType, line: int) -> bool:
    """Whether a line of a function is run again and again by a loop of the same function."""
    steps = list(dis.get_instructions(code))
    offsets = [step.offset for step in steps if step.positions is not None and step.positions.lineno == line]
    jumps = [(step.argval, step.offset) for step in steps if "JUMP_BACKWARD" in step.opname]
    return any(start <= offset <= end for offset in offsets for start, end in jumps)


# --- outcomes -------------------------------------------------------------------------------------------------


def _outcome(metadata: Mapping[str, Any], error: BaseException | None) -> tuple[str, str | None]:
    """How a frame's compile ended, and what it said if that was not well."""
    reason = metadata.get("fail_reason")
    said = first_lines(reason if isinstance(reason, str) else str(error)) if error is not None else None
    if private.is_limit(metadata, error):
        return "limit", said
    if error is not None:
        return ("skipped", None) if private.falls_back(error) else ("failed", said)
    # an empty graph has no operations; a frame given up has no figures at all
    return ("compiled" if metadata.get("graph_op_count") else "skipped"), None


def is_loaded(compile: Compile) -> bool:
    """Whether all of the backend's work came from disk."""
    states: dict[str, set[str]] = {}
    for layer, state in compile.caches:
        states.setdefault(layer, set()).add(state)
    return (states.get(private.FX_GRAPH) or states.get(private.AOT_AUTOGRAD)) == {"hit"}


# --- functions ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Function:
    """What the user would say is compiled."""

    qualname: str
    file: str
    line: int
    what: Any
    instance: Any = None
    """The module whose method it is."""
    parameters: tuple[str, ...] = ()
    """Names for what a wrapper takes as `args`."""
    handed_over: bool = False
    """The user gave it to torch.compile himself, wherever it is defined."""


class _Describer:
    """Says in text what a frame's compile is: the arguments that `COMPILE_ARGS` lists."""

    def __init__(self, torch: Any, sees_regions: Callable[[], bool]) -> None:
        self._torch = torch
        self._sees_regions = sees_regions
        self.places = Places(torch)
        self._numbers = Numbers()

    def describe(self, frame: CompilingFrame, epoch: int) -> Args:
        """Everything that is known as the compile begins."""
        function = self._function(frame)
        went_on = private.resumed(function.qualname)
        name = _short(went_on[0] if went_on else function.qualname)
        within = frame.values.get("func") if not self.places.is_users(function.file) else None
        if "func" in frame.code.co_freevars and isinstance(within, FunctionType):  # "wrapper" alone says nothing
            name = f"{_short(within.__qualname__)} ({name})"
        title = f"{name}, resumed at line {went_on[1]}" if went_on else name
        wrapped = ", wrapped" if frame.wrapped is not None else ""
        module = f", module {self._number(function.instance)}" if function.instance is not None else ""
        inputs, context, fed_back = self._signature(frame, function)
        if epoch:
            context[forms.CACHE.key()] = forms.generation(epoch + 1)
        return {
            "function": title,
            "origin": self._whose(frame, function),
            "key": f"dynamo:{function.file}:{function.qualname}",
            "identity": f"code {self._number(function.what)}{wrapped}{module}",
            "framework_id": f"{frame.frame_id}/{frame.frame_compile_id}",
            "location": location(function.file, function.line, name),
            "caller": self._caller(frame),
            "inputs": inputs,
            "context": self._modes(function) | context,
            "entry": self._is_entry(frame),
            "fullgraph": frame.fullgraph,
            "fed_back": fed_back,
        }

    def guarded(self, frame: CompilingFrame, reasons: list[str]) -> dict[str, Args]:
        """What is where the guards that failed look, by PyTorch's expression for it."""
        scope = private.Scope(self._torch, frame, self._function(frame).parameters)
        found: dict[str, Args] = {}
        with private.plain_tensors(self._torch):
            for path in (path for reason in reasons for path in private.looked_at(reason)):
                if path in found or len(found) == _LEAVES_LIMIT:
                    continue
                if (place := scope.find(path)) is not None:
                    value = self._type(place.value)
                    found[path] = {"argument": place.argument, "place": place.kind, "value": value}
        return found

    def dynamic(self, frame: CompilingFrame) -> dict[str, str] | None:
        """What the graph holds as a symbol: the dimensions of each argument ("0, 2"), "value" for a number; None where
        that cannot be seen."""
        symbols = private.symbols()
        if symbols is None:
            return None
        scope = private.Scope(self._torch, frame, self._function(frame).parameters)
        found: dict[str, str] = {}
        with private.plain_tensors(self._torch):
            for path, dimension in symbols[:_LEAVES_LIMIT]:
                place = scope.find(path)
                name = place.argument if place is not None else path
                said = "value" if dimension is None else str(dimension)
                found[name] = f"{found[name]}, {said}" if name in found else said
        return found

    def _number(self, thing: Any) -> int:
        """A number for an object; of the few that cannot be referred to weakly, all live for good (built-ins)."""
        return self._numbers.of(thing) or id(thing)

    def _whose(self, frame: CompilingFrame, function: _Function) -> str | None:
        """Whose compile it is: a library's code is the user's, where he has it compiled; None where nobody can tell."""
        if function.handed_over or self.places.is_users(function.file):
            return "user"
        given, caller = private.region(frame)
        instance = given.__self__ if isinstance(given, MethodType) else given
        if isinstance(instance, (self._torch.nn.Module, self._torch.optim.Optimizer)):
            return "user"
        code = given.__code__ if isinstance(given, FunctionType) else None
        files = [found.co_filename for found in (code, caller and caller.f_code) if found is not None]
        if any(self.places.is_users(file) for file in files):
            return "user"
        return "library" if self._sees_regions() else None

    def _is_entry(self, frame: CompilingFrame) -> bool:
        """Whether the frame is the very function that was given to torch.compile."""
        given, _ = private.region(frame)
        if isinstance(given, self._torch.nn.Module):
            given = type(given).forward
        function = given.__func__ if isinstance(given, MethodType) else given
        return frame.wrapped is not None or getattr(function, "__code__", None) is frame.code

    def _function(self, frame: CompilingFrame) -> _Function:
        given = frame.wrapped
        for _ in range(8):
            if not isinstance(given, partial):
                break
            given = given.func
        if isinstance(given, self._torch.nn.Module):
            forward, instance = type(given).forward, given
        else:
            forward = given.__func__ if isinstance(given, MethodType) else given
            instance = given.__self__ if isinstance(given, MethodType) else None
        if isinstance(forward, FunctionType):
            code = forward.__code__
            parameters = code.co_varnames[: code.co_argcount][0 if instance is None else 1 :]
            qualname = forward.__qualname__
            if isinstance(given, self._torch.nn.Module):
                qualname = f"{type(given).__qualname__}.forward"
            function = _Function(qualname, code.co_filename, code.co_firstlineno, code, None, parameters, True)
        elif given is not None:
            said = getattr(given, "__qualname__", None)
            name = said if isinstance(said, str) else type(given).__qualname__
            function = _Function(name, frame.code.co_filename, frame.code.co_firstlineno, given)
        else:
            code = frame.code
            function = _Function(code.co_qualname, code.co_filename, code.co_firstlineno, code)
            scope = code.co_qualname.rpartition(".")[0]
            is_method = bool(scope) and not scope.endswith("<locals>")
            # a resume frame keeps the names of its function, but not their order
            named = "self" if "self" in frame.values or not code.co_argcount else code.co_varnames[0]
            instance = frame.values.get(named) if is_method else None
        if isinstance(instance, self._torch.nn.Module):
            function.instance = instance
        return function

    def _caller(self, frame: CompilingFrame) -> Args | None:
        went_on = private.resumed(frame.code.co_qualname)
        itself = (frame.code.co_filename, went_on[0]) if went_on else None
        for above in self.places.users_frames(frame.caller):
            code = above.f_code
            resumed = private.resumed(code.co_qualname)
            name = resumed[0] if resumed else code.co_qualname
            if (code.co_filename, name) != itself:
                return location(code.co_filename, above.f_lineno or 0, name)
        return None

    def _modes(self, function: _Function) -> dict[str, str]:
        torch = self._torch
        mode = "inference" if torch.is_inference_mode_enabled() else _on(torch.is_grad_enabled())
        context = {forms.GRAD_MODE.key(): mode}
        for device in ("cpu", "cuda"):
            if torch.is_autocast_enabled(device):
                context[forms.AUTOCAST.key(device)] = dtype_text(torch.get_autocast_dtype(device))
        if function.instance is not None:
            context[forms.TRAINING.key()] = _on(bool(function.instance.training))
        return context | forms.CONFIG.at(private.modes(torch))

    # --- inputs -----------------------------------------------------------------------------------------------

    def _signature(self, frame: CompilingFrame, function: _Function) -> tuple[list[Args], dict[str, str], list[str]]:
        """The arguments' leaves, and the rest: containers, captured variables, marks, how a wrapper was called; and
        which of the leaves a compiled function had returned."""
        torch = self._torch
        inputs: list[Args] = []
        context: dict[str, str] = {}
        fed_back: list[str] = []
        with private.plain_tensors(torch):
            for name in frame.code.co_freevars:
                if name in frame.values and not name.startswith("__"):
                    context[forms.CLOSURE.key(name)] = self._type(frame.values[name])
            if frame.wrapped is not None:
                context[forms.CALL.key()] = forms.listed(_call(frame, function))
            for name, value in self._arguments(frame, function):
                for path, part in _parts(name, value):
                    if len(inputs) + len(context) >= _LEAVES_LIMIT:
                        return inputs, context, fed_back
                    if _is_container(part):
                        context[forms.TREE.key(path)] = self._type(part)
                    elif not isinstance(part, (torch.nn.Module, ModuleType)):
                        inputs.append({"argument": path, "type": self._type(part)})
                    if isinstance(part, torch.Tensor):
                        context |= self._unusual(path, part)
                        if private.is_result(part):
                            fed_back.append(path)
        return inputs, context, fed_back

    def _unusual(self, path: str, tensor: Any) -> dict[str, str]:
        """What else guards ask of a tensor, where it is not as usual."""
        context: dict[str, str] = {}
        if marks := private.marks(tensor):
            name = f"mark_dynamic({path})"
            context |= {forms.CONFIG.key(name): marks, forms.USUAL.key(name): "no mark"}
        if tensor.is_inference():
            name = f"inference({path})"
            context |= {forms.CONFIG.key(name): "inference", forms.USUAL.key(name): "on"}
        return context

    def _arguments(self, frame: CompilingFrame, function: _Function) -> Iterator[tuple[str, Any]]:
        code, values = frame.code, frame.values
        if frame.wrapped is not None:
            for position, value in enumerate(values.get("args", ())):
                known = position < len(function.parameters)
                yield function.parameters[position] if known else f"args[{position}]", value
            yield from values.get("kwargs", {}).items()
            return
        rest = private.rest_names(code)[-1] if code.co_flags & inspect.CO_VARKEYWORDS else None
        for name, value in values.items():
            if name in code.co_freevars or name.startswith("__nested_") or (name == "self" and not _is_plain(value)):
                continue
            stack = name.removeprefix("___stack")
            if name == rest and isinstance(value, dict):
                yield from value.items()
            elif stack == name:
                yield name, value
            elif not callable(value):  # of what lay on the stack at the break, values, not functions to be called
                yield f"<intermediate {stack}>", value

    def _type(self, value: Any) -> str:
        torch = self._torch
        if isinstance(value, torch.Tensor):
            try:
                return _tensor(torch, value)
            except Exception:  # a nested or a lazy tensor has no shape to tell
                return type(value).__qualname__
        if type(value).__module__ == "numpy" and hasattr(value, "shape") and hasattr(value, "dtype"):
            return f"{dtype_text(value.dtype)}[{_dimensions(value.shape)}]"
        if isinstance(value, (torch.dtype, torch.device, torch.layout, torch.memory_format)):
            return str(value)
        if _is_plain(value):
            return _text(value)
        if _is_container(value):
            return _container(value)
        if isinstance(value, Enum):
            return f"{type(value).__qualname__}.{object.__getattribute__(value, '_name_')}"[:_TEXT_LIMIT]
        if isinstance(value, (FunctionType, type)):
            return f"<{type(value).__name__} {value.__qualname__}>"[:_TEXT_LIMIT]
        return type(value).__qualname__


_PLAIN = (int, float, complex, bool, str, bytes, type(None))


def _is_plain(value: Any) -> bool:
    return type(value) in _PLAIN


def _text(value: Any) -> str:
    if isinstance(value, (str, bytes)):
        value = value[:_TEXT_LIMIT]
    elif isinstance(value, int) and value.bit_length() > 4 * _TEXT_LIMIT:
        return "int"
    return repr(value)[:_TEXT_LIMIT]


_EMPTY = {list: "[]", tuple: "()", dict: "{}", set: "set()"}


def _is_container(value: Any) -> bool:
    return isinstance(value, (list, tuple, dict, set, frozenset))


def _parts(path: str, value: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Plain containers, their leaves, and their paths as the user would write them; runs no code of the user's."""
    yield path, value
    if depth == _DEPTH_LIMIT:
        return
    if isinstance(value, dict):
        for key, part in dict.items(value):
            name = _text(key) if _is_plain(key) else type(key).__qualname__
            yield from _parts(f"{path}[{name}]", part, depth + 1)
    elif isinstance(value, (list, tuple)):
        fields = getattr(type(value), "_fields", None)
        for position, part in enumerate(list.__iter__(value) if isinstance(value, list) else tuple.__iter__(value)):
            name = f".{fields[position]}" if fields and position < len(fields) else f"[{position}]"
            yield from _parts(f"{path}{name}", part, depth + 1)


def _container(value: Any) -> str:
    """A container's kind and length; the keys of a dict, the members of a set."""
    base: Any = next(base for base in (list, tuple, dict, set, frozenset) if isinstance(value, base))
    length = base.__len__(value)
    if not length:
        return _EMPTY.get(base, f"{type(value).__qualname__} of 0")
    if base in (dict, set) and all(_is_plain(key) for key in base.__iter__(value)):
        keys = [_text(key) for key in base.__iter__(value)]
        text = ", ".join(keys if base is dict else sorted(keys))
        if len(text) < _TEXT_LIMIT:
            return f"{{{text}}}"
    return f"{type(value).__qualname__} of {length}"


def _call(frame: CompilingFrame, function: _Function) -> Iterator[str]:
    """How a wrapper was called: "x, y=" for one argument by position, one by keyword."""
    for position in range(len(frame.values.get("args", ()))):
        yield function.parameters[position] if position < len(function.parameters) else f"args[{position}]"
    for name in frame.values.get("kwargs", {}):
        yield f"{name}="


def _tensor(torch: Any, tensor: Any) -> str:
    """A tensor's abstract value."""
    words = [f"{dtype_text(tensor.dtype)}[{_dimensions(tensor.shape)}]"]
    if tensor.layout is not torch.strided:
        words.append(str(tensor.layout).removeprefix("torch."))
    elif not _is_contiguous(tensor):
        words.append(f"stride({_dimensions(tensor.stride())})")
    if tensor.requires_grad:
        words.append("requires_grad")
    if tensor.device.type != "cpu":
        words.append(f"@{tensor.device}")
    return " ".join(words)


def _is_contiguous(tensor: Any) -> bool:
    """Whether a tensor's strides are as usual, those of dimensions of size 1 included: guards look at them, too."""
    if not all(type(size) is int for size in tensor.shape):
        return bool(tensor.is_contiguous())
    strides: list[int] = []
    step = 1
    for size in reversed(tensor.shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(tensor.stride()) == tuple(reversed(strides))


def _dimensions(sizes: Any) -> str:
    return ",".join(str(size) if type(size) is int else "?" for size in sizes)


def _short(qualname: str) -> str:
    """A function's name without the functions around it."""
    return qualname.rpartition("<locals>.")[2]


def _on(flag: bool) -> str:
    return "on" if flag else "off"
