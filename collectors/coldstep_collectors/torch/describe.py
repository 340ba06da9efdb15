"""Says in text what a frame is that Dynamo compiles: whose function, defined where, and what it is called with."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from enum import Enum
from functools import partial
from itertools import count
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

from coldstep import context as forms
from coldstep._util.slotted import slotted
from coldstep.errors import our_errors
from coldstep.events import UNKNOWN, Args
from coldstep.places import Places, location
from coldstep_collectors.source_lines import with_around
from coldstep_collectors.torch._private import breaks, calls, frames
from coldstep_collectors.torch._private.frames import CompilingFrame
from coldstep_collectors.torch._private.scope import Scope, by_address, looked_at, name_of, parameter, rest_names
from coldstep_collectors.values import Codes, Numbers, closure, dtype_text, through

_TEXT_LIMIT = 200
_LEAVES_LIMIT = 256
_NAME_LIMIT = 60
_DEPTH_LIMIT = 6


@slotted
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
    """The user gave it to torch.compile themselves, wherever it is defined."""
    module: Any = None
    """The name of the module that it is defined in."""


class Describer:
    """Says in text what a frame's compile is: the arguments that `CompileArgs` lists."""

    def __init__(self, torch: Any, sees_regions: Callable[[], bool]) -> None:
        self._torch = torch
        self._sees_regions = sees_regions
        self.places = Places(torch)
        self._numbers = Numbers()
        self._codes = Codes()
        self._backends: dict[str, str] = {}
        """The backend of each compile, by PyTorch's id of that."""
        self._types: dict[str, dict[int, str]] = {}
        """The class of each value that its frame was handed, likewise, by the value's address."""

    def describe(self, frame: CompilingFrame, epoch: int) -> Args:
        """Everything that is known as the compile begins."""
        function = self._function(frame)
        went_on, name = breaks.resumed(function.qualname), short(breaks.whole_name(function.qualname))
        is_users = self.places.is_users(function.file)
        within = None if is_users else frame.values.get("func")
        if "func" in frame.code.co_freevars and isinstance(within, FunctionType):  # "wrapper" alone says nothing
            name = f"{short(within.__qualname__)} ({name})"
        title = f"{name}, resumed at line {went_on[1]}" if went_on else name
        if given := frames.given_name(frame):
            title = f"{title}, named {given[:_NAME_LIMIT]}"
        ahead = ", ahead" if frame.numbers is None and frame.wrapped is not None else ""
        wrapped = ahead or (", wrapped" if frame.wrapped is not None else "")
        module = f", module {self._number(function.instance)}" if function.instance is not None else ""
        own = f", isolated {frame.isolated}" if frame.isolated is not None else ""
        inputs, context, fed_back = self._signature(frame, function)
        called = None if is_users else self.places.called_by_user(frames.region(frame)[1])
        framework_id = "/".join(map(str, frame.numbers or ()))
        self._backends[framework_id] = self._backend(frame)
        self._types[framework_id] = {id(value): name_of(type(value)) for value in _handed_over(frame)}
        if isinstance(function.what, CodeType) and (run := self._codes.run(function.what)):
            context[forms.FUNCTION.key()] = f"{name}{run}"
        if epoch or own:
            context[forms.CACHE.key()] = f"{forms.generation(epoch + 1)}{own}"
        modes = self._modes(function)
        inference = modes[forms.GRAD_MODE.key()] == "inference"
        cause_at = self._entered(frame) if inference else calls.site(frames.backend(frame)[2])
        return {
            "function": title,
            "origin": self._whose(frame, function),
            "key": f"dynamo:{function.file}:{function.qualname}",
            "identity": f"{self._what(function)}{wrapped}{module}{own}",
            "framework_id": framework_id,
            "location": location(function.file, function.line, name),
            "module": function.module if isinstance(function.module, str) else None,
            "caller": self._caller(frame),
            "through": through(called),
            "inputs": inputs,
            "context": modes | context,
            **({"cause_at": cause_at} if cause_at is not None else {}),
            "entry": self._is_entry(frame),
            "fullgraph": frame.fullgraph,
            "fed_back": fed_back,
        }

    def loaded(self, code: CodeType) -> Args:
        """The known facts about a function compiled ahead, in whatever process, when it has been loaded."""
        name = short(code.co_qualname)
        return {
            "function": name,
            "key": f"dynamo:{code.co_filename}:{code.co_qualname}",
            "location": location(code.co_filename, code.co_firstlineno, name),
            UNKNOWN: ["inputs"],
        }

    def guarded(self, frame: CompilingFrame, reasons: list[str]) -> dict[str, Args]:
        """The values where the guards that failed look, by PyTorch's expression for each."""
        scope = Scope(self._torch, frame, self._function(frame).parameters)
        values: dict[str, Args] = {}
        with frames.plain_tensors():
            for path in (path for reason in reasons for path in looked_at(reason)):
                if path in values or len(values) == _LEAVES_LIMIT:
                    continue
                if (place := scope.find(path)) is not None:
                    value = self._type(place.value)
                    values[path] = {"argument": place.argument, "place": place.kind, "value": value}
        for reason in reasons:
            types = self._types.get(reason.partition(":")[0].strip("[]"), {})
            if (known_by := by_address(reason, types)) is not None and known_by[0] in values:
                values[known_by[0]] |= known_by[1]
            # PyTorch 2.9: "0/0: ". PyTorch 2.12: "0/0: BACKEND_MATCH failure: torch.compile detected different backend
            # callables. If this is unexpected"
            silent = reason if "Cached backend" in reason else reason.partition("BACKEND_MATCH failure")[0]
            known = self._backends.get(silent.strip("[]: "))
            if known is not None and known != (now := self._backend(frame)):
                values[reason] = {"before": known, "value": now}
        return values

    def _backend(self, frame: CompilingFrame) -> str:
        name, dynamic, function = frames.backend(frame)
        number = self._number(function) if function is not None else 0
        return f"(compiler={name!r}, dynamic={dynamic}) (id={number:#x})"  # in PyTorch's words since 2.10

    def dynamic(self, frame: CompilingFrame) -> dict[str, str] | None:
        """What the graph holds as a symbol: the dimensions of each argument ("0, 2"), "value" for a number; None where
        that cannot be seen."""
        symbols = frames.symbols()
        if not symbols:  # mostly it holds none
            return None if symbols is None else {}
        scope = Scope(self._torch, frame, self._function(frame).parameters)
        dimensions: dict[str, str] = {}
        with frames.plain_tensors():
            for path, dimension in symbols[:_LEAVES_LIMIT]:
                place = scope.find(path)
                name = place.argument if place is not None else path
                which = "value" if dimension is None else str(dimension)
                dimensions[name] = f"{dimensions[name]}, {which}" if name in dimensions else which
        return dimensions

    def _what(self, function: _Function) -> str:
        what = function.what
        return f"code {self._codes.of(what)}" if isinstance(what, CodeType) else f"object {self._number(what)}"

    def _number(self, thing: Any) -> int:
        """A number for an object; of the few that cannot be referred to weakly, all live for good (built-ins)."""
        return self._numbers.of(thing) or id(thing)

    def _whose(self, frame: CompilingFrame, function: _Function) -> str | None:
        """Whose compile it is: a library's is the user's where they have it compiled; None where nobody can tell."""
        if function.handed_over or self.places.is_users(function.file):
            return "user"
        given, caller = frames.region(frame)
        instance = given.__self__ if isinstance(given, MethodType) else given
        owners = [instance, *(value for _, value in closure(given))] if isinstance(given, FunctionType) else [instance]
        kinds = self._torch.nn.Module, self._torch.optim.Optimizer
        is_called_by_user = caller is not None and self.places.is_users(caller.f_code.co_filename)
        is_users = is_called_by_user or any(isinstance(each, kinds) for each in owners)
        if is_users or self.places.is_set_off(owners, caller):
            return "user"
        return "library" if self._sees_regions() else None

    def _is_entry(self, frame: CompilingFrame) -> bool:
        """Whether the frame is the very function that was given to torch.compile."""
        given, _ = frames.region(frame)
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
            function.module = forward.__module__
        elif given is not None:
            own_name = getattr(given, "__qualname__", None)
            name = own_name if isinstance(own_name, str) else type(given).__qualname__
            function = _Function(name, frame.code.co_filename, frame.code.co_firstlineno, given)
        else:
            code = frame.code
            function = _Function(code.co_qualname, code.co_filename, code.co_firstlineno, code)
            function.module = frame.globals.get("__name__")
            scope = code.co_qualname.rpartition(".")[0]
            is_method = bool(scope) and not scope.endswith("<locals>")
            # a resume frame keeps the names of its function, but not their order
            named = "self" if "self" in frame.values or not code.co_argcount else code.co_varnames[0]
            instance = frame.values.get(named) if is_method else None
        if isinstance(instance, self._torch.nn.Module):
            function.instance = instance
        return function

    def caller(self, frame: FrameType | None, itself: tuple[str, str] | None = None) -> Args | None:
        """The user's line, from `frame` outwards, that is not in the function `itself` (its file and name)."""
        for above in self.places.users_frames(frame):
            code = above.f_code
            name = breaks.whole_name(code.co_qualname)
            if (code.co_filename, name) != itself:
                return location(code.co_filename, above.f_lineno or 0, name)
        return None

    def _caller(self, frame: CompilingFrame) -> Args | None:
        went_on = breaks.resumed(frame.code.co_qualname)
        return self.caller(frame.caller, (frame.code.co_filename, went_on[0]) if went_on else None)

    def _entered(self, frame: CompilingFrame) -> Args | None:
        """The user's `with` that entered inference mode for the call."""
        for above in self.places.users_frames(frame.caller):
            code = above.f_code
            if (line := with_around(code.co_filename, above.f_lineno or 0, "inference_mode")) is not None:
                return location(code.co_filename, line, code.co_qualname)
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
        return context | forms.CONFIG.at(frames.modes(torch))

    # --- inputs -----------------------------------------------------------------------------------------------

    def _signature(self, frame: CompilingFrame, function: _Function) -> tuple[list[Args], dict[str, str], list[str]]:
        """The arguments' leaves, and the rest: containers, captured variables, marks, how a wrapper was called; and
        which of the leaves a compiled function had returned."""
        torch = self._torch
        inputs: list[Args] = []
        context: dict[str, str] = {}
        fed_back: list[str] = []
        with frames.plain_tensors():
            for name in frame.code.co_freevars:
                if name in frame.values and not name.startswith("__"):
                    context[forms.CLOSURE.key(name)] = self._type(frame.values[name])
            if frame.wrapped is not None:
                context[forms.CALL.key()] = forms.listed(_call(frame, function))
            for name, value in self._arguments(frame, function):
                for path, part in parts(name, value):
                    if len(inputs) + len(context) >= _LEAVES_LIMIT:
                        return inputs, context, fed_back
                    if _is_container(part):
                        context[forms.TREE.key(path)] = self._type(part)
                    elif not isinstance(part, (torch.nn.Module, ModuleType)):
                        inputs.append({"argument": path, "type": self._type(part)})
                    if isinstance(part, torch.Tensor):
                        if unusual := self._unusual(path, part):
                            context |= unusual
                        if frames.is_result(part):
                            fed_back.append(path)
        return inputs, context, fed_back

    def _unusual(self, path: str, tensor: Any) -> dict[str, str]:
        """What else guards ask of a tensor, where it is not as usual."""
        context: dict[str, str] = {}
        if marks := frames.marks(tensor):
            name = f"mark_dynamic({path})"
            context |= {forms.CONFIG.key(name): marks, forms.USUAL.key(name): "no mark"}
        if tensor.is_inference():
            name = f"inference({path})"
            context |= {forms.CONFIG.key(name): "inference", forms.USUAL.key(name): "on"}
        return context

    def _arguments(self, frame: CompilingFrame, function: _Function) -> Iterator[tuple[str, Any]]:
        code, values = frame.code, frame.values
        if frame.wrapped is not None:
            names = (parameter(function.parameters, position) for position in count())
            yield from zip(names, values.get("args", ()), strict=False)
            yield from values.get("kwargs", {}).items()
            return
        rest = rest_names(code)[-1] if code.co_flags & inspect.CO_VARKEYWORDS else None
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
            except our_errors():  # a nested or a lazy tensor has no shape to tell
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
        if isinstance(value, (FunctionType, BuiltinFunctionType, type)):
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


def parts(path: str, value: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Plain containers, their leaves, and their paths as the user would write them; runs none of the user's code."""
    yield path, value
    if depth == _DEPTH_LIMIT:
        return
    if isinstance(value, dict):
        for key, part in dict.items(value):
            name = _text(key) if _is_plain(key) else type(key).__qualname__
            yield from parts(f"{path}[{name}]", part, depth + 1)
    elif isinstance(value, (list, tuple)):
        fields = getattr(type(value), "_fields", None)
        for position, part in enumerate(list.__iter__(value) if isinstance(value, list) else tuple.__iter__(value)):
            name = f".{fields[position]}" if fields and position < len(fields) else f"[{position}]"
            yield from parts(f"{path}{name}", part, depth + 1)


def _container(value: Any) -> str:
    """A container's kind and length; the keys of a dict, the members of a set."""
    base: Any = next(base for base in (list, tuple, dict, set, frozenset) if isinstance(value, base))
    if not (length := base.__len__(value)):
        return _EMPTY.get(base, f"{type(value).__qualname__} of 0")
    if base in (dict, set) and all(_is_plain(key) for key in base.__iter__(value)):
        keys = [_text(key) for key in base.__iter__(value)]
        text = ", ".join(keys if base is dict else sorted(keys))
        if len(text) < _TEXT_LIMIT:
            return f"{{{text}}}"
    return f"{type(value).__qualname__} of {length}"


def _call(frame: CompilingFrame, function: _Function) -> Iterator[str]:
    """How a wrapper was called: "x, y=" for one argument by position, one by keyword."""
    yield from (parameter(function.parameters, position) for position in range(len(frame.values.get("args", ()))))
    yield from (f"{name}=" for name in frame.values.get("kwargs", {}))


def _handed_over(frame: CompilingFrame) -> Iterator[Any]:
    """The values of a frame, those in its `*args` and `**kwargs` included."""
    yield from frame.values.values()
    for name in rest_names(frame.code):
        rest = frame.values.get(name)
        yield from rest.values() if isinstance(rest, dict) else rest if isinstance(rest, tuple) else ()


def _tensor(torch: Any, tensor: Any) -> str:
    """A tensor's abstract value."""
    words = [f"{dtype_text(tensor.dtype)}[{_dimensions(tensor.shape)}]"]
    if tensor.layout is not torch.strided:
        words.append(str(tensor.layout).removeprefix("torch."))
    elif not _is_contiguous(tensor):
        words.append(f"stride({_dimensions(tensor.stride())})")
    if tensor.requires_grad:
        words.append("requires_grad")
    if (placements := getattr(tensor, "placements", None)) is not None:
        words.append(f"@{_placed(placements, tensor.device_mesh.shape)}")
    elif tensor.device.type != "cpu":
        words.append(f"@{tensor.device}")
    return " ".join(words)


def _placed(placements: Any, mesh: Any) -> str:
    """How a DTensor is divided among the ranks of a mesh: "Shard(dim=0),Replicate()/mesh(2,4)"."""
    return f"{','.join(map(repr, placements))}/mesh({','.join(map(str, mesh))})".replace(" ", "")


def _is_contiguous(tensor: Any) -> bool:
    """Whether a tensor's strides are as usual, those of dimensions of size 1 included: guards look at them, too."""
    sizes, step = tensor.shape, 1
    if {*map(type, sizes)} - {int}:
        return bool(tensor.is_contiguous())
    for size, stride in zip(reversed(sizes), reversed(tensor.stride()), strict=True):
        if stride != step:
            return False
        step *= size or 1
    return True


def _dimensions(sizes: Any) -> str:
    return ",".join([str(size) if type(size) is int else "?" for size in sizes])


def short(qualname: str) -> str:
    """A function's name without the functions around it."""
    return qualname.rpartition("<locals>.")[2]


def _on(flag: bool) -> str:
    return "on" if flag else "off"
