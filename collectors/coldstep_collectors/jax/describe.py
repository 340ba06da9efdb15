"""Says in text what a JAX program is: whose function, where it is defined, and the whole signature it is compiled for.

Two signatures differ in what this module writes down, or the cause of a recompile stays unknown.
"""

from __future__ import annotations

import dataclasses
import enum
import itertools
import re
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from traceback import walk_tb
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

from coldstep import context as forms
from coldstep.errors import our_errors
from coldstep.events import Args
from coldstep.named_tuple import NamedTuple
from coldstep.places import Places, absolute, location, location_of
from coldstep_collectors.bytecode import with_nested
from coldstep_collectors.captures import Captures
from coldstep_collectors.jax._private import flax
from coldstep_collectors.jax._private.hooks import (
    STATIC,
    Dispatch,
    Internals,
    Leaf,
    Results,
    Static,
    partition,
)
from coldstep_collectors.jax._private.signatures import leaf as leaf_of
from coldstep_collectors.jax.jittable import Jittable
from coldstep_collectors.remade import known_by
from coldstep_collectors.values import (
    TEXT_LIMIT,
    Codes,
    Numbers,
    attribute,
    closure,
    cut,
    dtype_text,
    globals_read,
    held,
    is_plain,
    through,
    within,
)

# JAX 0.10: "[0]['w']"
_LEVEL = re.compile(r"\.\w+|\[[^\]]*\]")
# JAX 0.10: "<flat index 0>"
_FLAT_INDEX = re.compile(r"<flat index (\d+)>")
_WRAPPERS = 20
_LARGE_BYTES = 1 << 16  # of a constant
_INNER_FUNCTIONS = 3


class _Definition(NamedTuple):
    """Where a function is defined: for use inside the hook only."""

    name: str
    file: str
    line: int
    code: CodeType | None
    """None where the function itself cannot be had."""


class Describer:
    """Says in text what a dispatch compiles: the arguments of its compile, as `CompileArgs` lists them."""

    def __init__(self, jax: Any, internals: Internals) -> None:
        self._jax = jax
        self._internals = internals
        self._one_level = internals.one_level()
        eager = (jax, sys.modules.get("jaxlib"))
        self._places = Places(eager=filter(None, eager))
        self._codes = Codes()
        self._functions = Numbers()
        self._captures: dict[str, dict[str, str]] = {}
        self._values = Numbers()
        self._instances = _Instances()
        self._returns: dict[str, _Returned] = {}
        self._jittable = Jittable(jax, self._places)

    def callers(self, frame: FrameType) -> Iterator[FrameType]:
        """The user's frames, from `frame` outwards."""
        return self._places.users_frames(frame)

    def failed_at(self, error: BaseException) -> Args:
        """The user's innermost line that an error came through, as `cause_at`; nothing where it came through none."""
        lines = [
            location(frame.f_code.co_filename, line, frame.f_code.co_qualname)
            for frame, line in walk_tb(error.__traceback__)
            if self.is_users(frame.f_code.co_filename)
        ]
        return {"cause_at": lines[-1]} if lines else {}

    def is_users(self, file: str) -> bool:
        """Whether the user wrote the code in `file`."""
        return self._places.is_users(file)

    def captures(self, dispatch: Dispatch, owner: Callable[[list[Any]], Any]) -> Captures:
        """What the function of a dispatch holds, of `owner(layers)` or of none."""
        layers = list(_layers(dispatch.function))
        functions = [each.__func__ if isinstance(each, MethodType) else each for each in layers]
        of = owner(layers)
        return Captures(functions, dispatch.static_self() if of is None else of, self._places, self._values, later=True)

    def describe(self, dispatch: Dispatch, function: str, frame: FrameType) -> Args:
        """Everything that is known when a program's first phase begins."""
        layers = list(_layers(dispatch.function))
        definitions = self._definitions(layers) or ([_Definition(*dispatch.source, None)] if dispatch.source else [])
        if definitions and self._places.origin(definitions[-1].file) == "library":
            try:
                inner = self._handed_over(layers[-1], dispatch)
            except our_errors():  # a wrapper that is not what it looks like
                inner = None
            definitions += filter(None, (_definition(inner),))
            layers.append(inner)
        if definitions and self._is_jax(definitions[-1]) and (kernel := self._kernel(layers[-1])) is not None:
            definitions += filter(None, (_definition(kernel),))
            layers.append(kernel)
            function = kernel.__name__
        name, file, line, code = definitions[-1] if definitions else (function, None, 0, None)
        identity = list(map(self._identity, definitions))
        identity += (f"instance {number}" for number in map(self._instances.of, layers) if number is not None)
        if dispatch.transform:
            identity.append(f"by {dispatch.transform}")
        if statics := dispatch.static_names():
            identity.append(f"static {','.join(statics)}")
        origin = self._places.origin(file) if file else None
        called = None
        if origin == "library":  # JAX calls its own functions only, so a library's is a part of the program
            origin, called = "user", self._places.called_by_user(frame)
        caller = self._places.users_frame(frame)
        arguments = self._arguments(dispatch)
        context = self._context(dispatch, arguments)
        if origin == "user" and (number := self._functions.of(dispatch.function, " ".join(identity))):
            run = self._codes.run(code) if code is not None else ""
            context[forms.FUNCTION.key()] = f"{name.rpartition('.')[2]} #{number}{run}"
            key = f"{number} {' '.join(identity)}"
            if key not in self._captures:  # JAX looks at what a function holds when it is first traced, and never again
                self._captures[key] = self._captured(layers)
            context |= self._captures[key]
        inputs = _inputs(dispatch, arguments) if "arguments" in self._internals.facts else None
        fed_back = self._fed_back(self._returns.get(" ".join(identity)), dispatch, inputs or [])
        return {
            "function": name if dispatch.is_mapped or function.startswith("<unnamed") else function,
            "origin": origin,
            "key": f"jax:{file or ''}:{name}",
            # what cannot be told apart must not look like one function compiled again
            "identity": " ".join(identity) if definitions and "function" in self._internals.facts else "",
            "location": location(file, line, name) if file else None,
            "module": next((each.__module__ for each in layers[::-1] if isinstance(each, FunctionType)), None),
            "caller": location_of(caller) if caller is not None else None,
            "through": through(called),
            "within": self._within(caller) if origin == "eager" else None,
            "inputs": inputs,
            "context": context,
            **({"fed_back": fed_back} if fed_back else {}),
            **({"known_by": by} if origin == "user" and (by := known_by(layers)) is not None else {}),
        }

    def _within(self, caller: FrameType | None) -> Args | None:
        """The user's function around an eager operation."""
        if (function := within(caller, self._places)) is None:
            return None
        try:
            return function | self._jittable.around(self._places.users_frames(caller))
        except our_errors():  # an object of the user's that answers a question by an error
            return function

    def argument(self, path: str, value: Any) -> tuple[list[Args], dict[str, str]] | None:
        """The inputs of a call, and the values in its context beside them, that come from a value at `path` of its
        arguments; None where it cannot be taken apart."""
        if self._one_level is None:
            return None
        taken = _Arguments(self._one_level, self._values)
        try:
            taken.add(path, value, False)
            leaves = [leaf_of(self._jax, each) for each in self._jax.tree_util.tree_leaves(value)]
        except our_errors():  # what JAX would refuse, and a user's container that cannot be taken apart
            return None
        if len(leaves) != sum(is_leaf is not None for _, is_leaf in taken.leaves):
            return None
        return _inputs(Dispatch(leaves=leaves), taken), forms.STATIC.at(taken.statics) | forms.TREE.at(taken.nodes)

    def returned(self, about: Args, results: Results | None) -> list[str]:
        """Take down what the program that `about` describes returns, to know it again where it is handed in; returns
        what the program does besides."""
        if results is None:
            return []
        if about["origin"] == "user":
            returned = self._returns.setdefault(about["identity"], _Returned())
            partitions = results.partitions or itertools.repeat(None, len(results.paths))
            for path, aval, placed in zip(results.paths, results.avals, partitions, strict=True):
                held = _Held(_type(aval), placed, results.committed)
                returned.add(_plain_key(path), held)
        return list(results.effects)

    def held(self, constants: Sequence[Any]) -> dict[str, int]:
        """The bytes of the large arrays among a program's constants, by type."""
        held: dict[str, int] = {}
        for each in constants:
            aval, size = getattr(each, "aval", each), getattr(each, "nbytes", 0)
            if isinstance(size, int) and size >= _LARGE_BYTES and hasattr(aval, "dtype"):
                type_ = _type(aval)
                held[type_] = held.get(type_, 0) + size
        return held

    def _fed_back(self, returned: _Returned | None, dispatch: Dispatch, inputs: list[Args]) -> list[str]:
        """The arguments that are in all what the function had returned at the same place of its result."""
        if returned is None:
            return []
        leaves = iter(dispatch.leaves)
        named = [(str(row["argument"]), next(leaves)) for row in inputs if row["type"] != "None"]
        positions = {root: at for at, root in enumerate(dict.fromkeys(forms.root(argument) for argument, _ in named))}
        return [
            argument
            for argument, leaf in named
            if (held := _held(leaf)) is not None
            and returned.has(argument.removeprefix(root := forms.root(argument)), positions[root], held)
        ]

    # --- the function -----------------------------------------------------------------------------------------

    def _definitions(self, layers: list[Any]) -> list[_Definition]:
        """Where a function and what it wraps are defined, outermost first."""
        definitions = []
        for layer in layers:
            if (definition := _definition(layer)) is None:
                continue
            if self._is_jax(definition):  # all of grad, vmap … end in one wrapper, and differ in what it closes over
                inner = filter(None, map(_definition, _functions_in(layer)))
                definitions += [each for each in inner if self._is_jax(each)]
            definitions.append(definition)
        return definitions

    def _is_jax(self, definition: _Definition) -> bool:
        return self._places.origin(definition.file) == "eager"

    def _kernel(self, wrapper: Any) -> FunctionType | None:
        """The user's kernel that a function of Pallas' runs."""
        inner = ((each, absolute(each.__code__.co_filename)) for each in _functions_in(wrapper))
        return next((each for each, file in inner if self._places.origin(file) == "user"), None)

    def _identity(self, definition: _Definition) -> str:
        """What tells a function's code from all other, that of another lambda on the same line included."""
        place = f"{definition.file}:{definition.line}:{definition.name}"
        code = definition.code
        number = self._codes.of(code, place) if code is not None else self._codes.only(place)
        return place if number is None else f"{place} code {number}"

    def _handed_over(self, wrapper: Any, dispatch: Dispatch) -> Any:
        """The user's function that a library's wrapper runs: an attribute, its object's class, a static argument."""
        if dispatch.is_equinox():
            candidates = [dispatch.of_equinox()]
        elif isinstance(wrapper, FunctionType):
            candidates = [value for _, value in dispatch.statics() if isinstance(value, (FunctionType, MethodType))]
        else:
            candidates = [each for each in held(wrapper).values() if callable(each)]
        if isinstance(dispatch.function, MethodType):
            candidates.append(dispatch.function.__self__)
        for each in candidates:
            function = each.value if isinstance(each, Static) else each
            *_, inner = _layers(function if isinstance(function, (FunctionType, MethodType)) else _call_of(function))
            if (definition := _definition(inner)) is not None and self._places.origin(definition.file) == "user":
                return inner
        return None

    def _captured(self, layers: list[Any]) -> dict[str, str]:
        """What the user's function holds beyond its arguments, as far as it is readable: numbers, text, functions."""
        captured: dict[str, str] = {}
        for layer in layers:
            if isinstance(layer, partial):
                for name, value in _bound(layer):
                    _note(captured, forms.CLOSURE.key(name), value)
            function, owner = layer, None
            if isinstance(layer, MethodType):
                function, owner = layer.__func__, layer.__self__
            elif not isinstance(layer, FunctionType):
                function, owner = _call_of(layer), layer
            if isinstance(function, FunctionType):
                self._capture(function, owner, captured, _INNER_FUNCTIONS)
        return captured

    def _capture(self, function: FunctionType, owner: Any, captured: dict[str, str], depth: int) -> None:
        code = function.__code__
        if depth == 0 or self._places.origin(absolute(code.co_filename)) != "user":
            return
        inner = []
        for name, value in closure(function):
            if isinstance(value, FunctionType):
                inner.append(value)
            _note(captured, forms.CLOSURE.key(name), value)
        for name, value in _defaults(function):
            _note(captured, forms.CLOSURE.key(name), value)
        held_globals: dict[str, str] = {}
        for name in {name for each in with_nested(code) for name in each.co_names}:
            _note(held_globals, name, function.__globals__.get(name))
        # most functions read none with a text: then their instructions need not be looked at
        for name in globals_read(code) & held_globals.keys() if held_globals else ():
            captured.setdefault(forms.GLOBAL.key(name), held_globals[name])
        if owner is not None and code.co_argcount:
            attributes = held(owner)
            for name in code.co_names:
                if name in attributes:
                    _note(captured, forms.ATTRIBUTE.key(f"{code.co_varnames[0]}.{name}"), attributes[name])
        for each in inner:
            self._capture(each, None, captured, depth - 1)

    # --- the call ---------------------------------------------------------------------------------------------

    def _arguments(self, dispatch: Dispatch) -> _Arguments | None:
        """The call's arguments taken apart, None where they don't match the program's inputs."""
        if self._one_level is None or dispatch.transform:
            return None
        arguments = _Arguments(self._one_level, self._values)
        try:
            for name, value, by_keyword in dispatch.arguments():
                arguments.add(name, value, by_keyword)
        except our_errors():  # a user's container that cannot be taken apart; JAX itself will say so
            return None
        return arguments if sum(leaf is not None for _, leaf in arguments.leaves) == len(dispatch.leaves) else None

    def _context(self, dispatch: Dispatch, arguments: _Arguments | None) -> dict[str, str]:
        context: dict[str, str] = {}
        for name, value in dispatch.statics():
            context |= forms.STATIC.at(dict(_static(name, value, self._values)))
        names = dispatch.names
        if arguments is not None:
            if arguments.call:
                context[forms.CALL.key()] = forms.listed(arguments.call)
            context |= forms.STATIC.at(arguments.statics) | forms.TREE.at(arguments.nodes)
            names = [path for path, leaf in arguments.leaves if leaf is not None]
        donated = dict.fromkeys(forms.root(name) for name, given in zip(names, dispatch.donated, strict=False) if given)
        if donated:
            context[forms.DONATED.key()] = forms.listed(donated)
        specified = dispatch.specified_shardings()
        for form in (forms.IN_SHARDINGS, forms.OUT_SHARDINGS):
            if form.word in specified:
                texts = (_sharding(sharding) or "unspecified" for sharding in specified[form.word])
                context[form.key()] = cut(forms.listed(texts))
        for name, value in dispatch.other_options().items():
            context[forms.CONFIG.key(name)] = _text(value)
        if dispatch.transform:
            context[forms.TRANSFORM.key()] = dispatch.transform
        for name, (value, usual) in self._internals.configuration().items():
            context[forms.CONFIG.key(name)], context[forms.USUAL.key(name)] = _text(value), _text(usual)
        return context

    def with_backend(self, context: dict[str, str], dispatch: Dispatch) -> dict[str, str]:
        """`context`, and the facts known only when XLA begins."""
        devices = cut(", ".join(_device(device) for device in dispatch.devices))
        options = _text(dict(dispatch.compiler_options)) if dispatch.compiler_options else None
        late = {forms.DEVICE.key(): devices, forms.CONFIG.key("compiler_options"): options}
        return context | {key: text for key, text in late.items() if text}


class _Instances:
    """Tells live objects of one class apart by small numbers; the number of one that is gone is free for the next."""

    def __init__(self) -> None:
        self._slots: dict[str, list[weakref.ref[Any]]] = {}

    def of(self, layer: Any) -> int | None:
        """The number of the object whose method `layer` is, or which is called itself; None where there is none."""
        owner = layer.__self__ if isinstance(layer, MethodType) else layer
        if owner is None or isinstance(owner, (FunctionType, partial, type, ModuleType)):
            return None
        if owner is layer and (_call_of(owner) is None or attribute(owner, "__wrapped__") is not None):
            return None  # what a decorator made is known by what it wraps, however late it is collected
        kind = type(owner)
        slots = self._slots.setdefault(f"{kind.__module__}.{kind.__qualname__}", [])
        try:
            reference = weakref.ref(owner)
        except TypeError:
            return None
        free = None
        for number, slot in enumerate(slots):
            known = slot()
            if known is owner:
                return number
            if known is None and free is None:
                free = number
        if free is None:
            slots.append(reference)
            return len(slots) - 1
        slots[free] = reference
        return free


class _Arguments:
    """A call's arguments taken apart as JAX does it, with the paths as the user wrote them; keeps no value."""

    def __init__(self, one_level: Callable[[Any], Any], values: Numbers) -> None:
        self._one_level = one_level
        self._values = values
        self.call: list[str] = []
        self.leaves: list[tuple[str, bool | None]] = []  # None for a None, which is no leaf for JAX
        self.nodes: dict[str, str] = {}
        self.statics: dict[str, str] = {}

    def add(self, name: str, value: Any, by_keyword: bool) -> None:
        """Take one argument apart; `name=` in `call` is one passed by keyword."""
        self.call.append(f"{name}=" if by_keyword else name)
        self._walk(name, value)

    def _walk(self, path: str, value: Any) -> None:
        if value is STATIC:
            return
        if isinstance(value, Static):
            self.statics |= _static(path, value.value, self._values)
            return
        if value is None:
            self.leaves.append((path, None))
            return
        if (module := flax.taken_apart(value)) is not None:
            self._add_module(path, module)
            return
        if (level := self._one_level(value)) is None:
            self.leaves.append((path, True))
            return
        keyed, metadata = level
        kind = type(value)
        names = attribute(kind, "_fields") if isinstance(value, tuple) else None
        # of a named tuple JAX names the first field only
        keys = [f".{each}" for each in names] if names is not None else [_plain_key(str(key)) for key, _ in keyed]
        if isinstance(value, dict):
            keys_text = "{" + ", ".join(key[1:-1] for key in keys) + "}"
            self.nodes[path] = cut(keys_text if kind is dict else f"{kind.__qualname__}{keys_text}")
        elif kind in (list, tuple) or any(key[:1] != "." for key in keys):
            self.nodes[path] = f"{kind.__qualname__} of {len(keys)}"
        else:
            self.nodes[path] = cut(f"{kind.__qualname__}({', '.join(key[1:] for key in keys)})")
        if names is None and kind not in (dict, list, tuple) and not isinstance(value, dict):
            for suffix, part in _metadata(value, metadata, keys):
                for where, text in _static(path + suffix, part, self._values):
                    self.statics[where] = text
        for key, (_, child) in zip(keys, keyed, strict=True):
            self._walk(path + key, child)

    def _add_module(self, path: str, module: flax.Module) -> None:
        self.leaves += [(path + where, True) for where in module.leaves]
        for where, value in module.statics:
            self.statics |= _static(path + where, value, self._values)
        self.statics[path] = f"{module.kind} #{module.rest & 0xFFFFFFFF:08x}"


def _plain_key(path: str) -> str:
    return _FLAT_INDEX.sub(r"\1", path) if "<flat" in path else path


def _metadata(value: Any, metadata: Any, keys: list[str]) -> Iterator[tuple[str, Any]]:
    """What a node holds beyond its children: the static fields of a dataclass by name, else all of it."""
    if metadata is None or metadata == ():
        return
    if dataclasses.is_dataclass(value) and type(metadata) is tuple:
        fields = [field.name for field in dataclasses.fields(value) if f".{field.name}" not in keys]
        own, first = held(value), len(metadata) - len(fields)  # Equinox has one more before them, of its wrappers
        parts = [*zip(fields, metadata[first:], strict=False)]
        if fields and first >= 0 and all(own.get(name) is part for name, part in parts):
            if first:
                yield "", metadata[:first]
            yield from ((f".{name}", part) for name, part in parts)
            return
    yield "", metadata


def _static(path: str, value: Any, numbers: Numbers) -> Iterator[tuple[str, str]]:
    """The text of a static value; of a container that is long, the text of each part."""
    text = _write(value, numbers)
    if len(text) > TEXT_LIMIT and type(value) in (tuple, list):
        for at, part in enumerate(value):
            yield from _static(f"{path}[{at}]", part, numbers)
    elif len(text) > TEXT_LIMIT and type(value) is dict and all(type(key) in (str, int) for key in value):
        for key, part in value.items():
            yield from _static(f"{path}[{key!r}]", part, numbers)
    else:
        yield path, cut(text)


# --- functions ------------------------------------------------------------------------------------------------


def _layers(function: Any) -> Iterator[Any]:
    """`function`, and what it wraps, outermost first."""
    for _ in range(_WRAPPERS):
        yield function
        if isinstance(function, MethodType):
            function = function.__func__
        function = function.func if isinstance(function, partial) else attribute(function, "__wrapped__")
        if function is None:
            return


def _definition(function: Any) -> _Definition | None:
    """Where a function, or an object's `__call__`, is defined."""
    code = attribute(function, "__code__")
    if not isinstance(code, CodeType):
        function = _call_of(function)
        code = attribute(function, "__code__")
        if not isinstance(code, CodeType):
            return None
    name = attribute(function, "__qualname__")
    name = name if isinstance(name, str) else code.co_qualname
    return _Definition(name, absolute(code.co_filename), code.co_firstlineno, code)


def _call_of(thing: Any) -> FunctionType | None:
    """The Python function that runs when an object is called; None for a built-in's or JAX's own."""
    call = type(thing).__call__ if callable(thing) else None
    return call if isinstance(call, FunctionType) else None


def _functions_in(function: Any) -> Iterator[FunctionType]:
    if isinstance(function, FunctionType):
        yield from (inner for _, inner in closure(function) if isinstance(inner, FunctionType))


def _defaults(function: FunctionType) -> Iterator[tuple[str, Any]]:
    code, values = function.__code__, function.__defaults__ or ()
    yield from zip(code.co_varnames[code.co_argcount - len(values) : code.co_argcount], values, strict=True)
    yield from (function.__kwdefaults__ or {}).items()


def _bound(function: partial[Any]) -> Iterator[tuple[str, Any]]:
    """The arguments that a partial binds, by the names that they have in the function."""
    code = getattr(function.func, "__code__", None)
    names = code.co_varnames[: code.co_argcount] if isinstance(code, CodeType) else ()
    for at, value in enumerate(function.args):
        yield names[at] if at < len(names) else f"args[{at}]", value
    yield from function.keywords.items()


def _note(captured: dict[str, str], name: str, value: Any) -> None:
    """Take down a value that a function holds, where its text tells it from another value."""
    if isinstance(value, (FunctionType, type)):
        captured.setdefault(name, f"{value.__module__}.{value.__qualname__}")
    elif value is not None and (is_plain(value) or isinstance(value, enum.Enum) or _is_number(value)):
        captured.setdefault(name, _text(value))


class _Held(NamedTuple):
    """All that JAX keys a program with of an array: as much as can be told of a result before it is there."""

    type: str
    partition: str | None
    committed: bool


def _held(leaf: Leaf) -> _Held | None:
    if leaf.sharding is None:
        return None  # a number, or NumPy's: no result
    return _Held(_type(leaf.aval), partition(leaf.sharding, getattr(leaf.aval, "ndim", 0)), leaf.committed)


class _Returned:
    """What a function has returned, by its place in the result."""

    def __init__(self) -> None:
        self._whole: dict[str, set[_Held]] = {}
        self._below: dict[str, set[_Held]] = {}  # by the path from the result's first level on

    def add(self, path: str, held: _Held) -> None:
        """It returned `held` at `path`, "[0]['w']", of its result."""
        self._whole.setdefault(path, set()).add(held)
        if level := _LEVEL.match(path):
            self._below.setdefault(path[level.end() :], set()).add(held)

    def has(self, path: str, position: int, held: _Held) -> bool:
        """Whether it returned `held` where an argument has it: at `path` within the argument at `position`."""
        if path:  # says enough by itself, whether the argument is the whole result or one of several
            return held in self._whole.get(path, ()) or held in self._below.get(path, ())
        sole = position == 0 or not held.type.partition(" ")[0].endswith("[]")  # else a number beside a loss
        return held in self._whole.get(f"[{position}]", ()) or (sole and held in self._whole.get("", ()))


# --- types and values -----------------------------------------------------------------------------------------


def _inputs(dispatch: Dispatch, arguments: _Arguments | None) -> list[Args]:
    if arguments is not None:
        rows = arguments.leaves
    else:
        names = dispatch.names if len(dispatch.names) == len(dispatch.leaves) else [""] * len(dispatch.leaves)
        rows = [(name or f"args[{position}]", True) for position, name in enumerate(names)]
    shardings: dict[int, str] = {}  # most arguments share a few objects
    leaves = iter(dispatch.leaves)
    inputs = []
    for name, is_leaf in rows:
        if is_leaf is None:
            inputs.append({"argument": name, "type": "None"})
            continue
        leaf = next(leaves)
        if (placed := shardings.get(id(leaf.sharding))) is None:
            placed = shardings[id(leaf.sharding)] = _sharding(leaf.sharding)
        words = [_type(leaf.aval)]
        if placed:
            words.append(f"@{placed}")
        if leaf.committed:
            words.append("committed")
        inputs.append({"argument": name, "type": " ".join(words)})
    return inputs


def _type(aval: Any) -> str:
    """An abstract value, and whether it gives way to others: "f32[] weak"."""
    return f"{_abstract(aval)} weak" if getattr(aval, "weak_type", False) else _abstract(aval)


def _abstract(aval: Any) -> str:
    """An abstract value, as "bf16[8,128]"."""
    dtype, shape = getattr(aval, "dtype", None), getattr(aval, "shape", None)
    if dtype is None or shape is None:
        return type(aval).__name__
    return f"{dtype_text(dtype)}[{','.join(map(str, shape))}]"


def _sharding(sharding: Any) -> str:
    """Where an array lies, "" for the one place where everything lies by default."""
    if sharding is None:
        return ""
    spec, mesh = getattr(sharding, "spec", None), getattr(sharding, "mesh", None)
    kind = getattr(sharding, "memory_kind", None)
    memory = f"/{kind}" if kind not in (None, "device", "unpinned_host") else ""
    if spec is not None and mesh is not None:
        return f"{_spec(spec)}/{_mesh(mesh)}{memory}".replace(" ", "")
    devices = getattr(sharding, "device_set", ())
    if len(devices) != 1:
        return f"{type(sharding).__name__}({len(devices)}){memory}"
    device = next(iter(devices))
    return memory if _is_first(device) else f"{_device(device)}{memory}"


def _spec(spec: Any) -> str:
    return f"P({','.join(map(_text, spec))})"


def _mesh(mesh: Any) -> str:
    """A mesh's axes; those that are not of the usual type say so."""
    kinds = [str(kind).rpartition(".")[2].lower() for kind in getattr(mesh, "axis_types", ())]
    sizes = [f"{name}={size}" for name, size in mesh.shape.items()]
    if len(kinds) == len(sizes):
        sizes = [size if kind == "explicit" else f"{size}:{kind}" for size, kind in zip(sizes, kinds, strict=True)]
    return f"mesh({','.join(sizes)})"


def _is_first(device: Any) -> bool:
    try:
        return bool(device == device.client.local_devices()[0])
    except our_errors():  # one of a topology that is only compiled for
        return False


def _device(device: Any) -> str:
    return f"{device.platform}:{device.id}"


def _text(value: Any) -> str:
    """`value` as text, without ever calling a `__repr__` that we don't know."""
    return cut(_write(value))


def _write(value: Any, numbers: Numbers | None = None, depth: int = 4) -> str:
    kind: Any = type(value)
    if is_plain(value):
        return repr(value)
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, enum.Enum):
        return f"{kind.__name__}.{value.name}"
    if _is_number(value):
        return f"{kind.__name__}({value.item()!r})"
    if kind.__module__.partition(".")[0] in ("jax", "jaxlib"):
        if kind.__name__ == "Device":
            return _device(value)
        if kind.__name__ == "PartitionSpec":
            return _spec(value)
        if kind.__name__ in ("Mesh", "AbstractMesh"):
            return _mesh(value)
        if kind.__name__ in ("NamedSharding", "SingleDeviceSharding"):
            return _sharding(value) or "default"
    if kind in (tuple, list, dict) and depth and len(value) <= TEXT_LIMIT:
        if kind is dict:
            pairs = [f"{_write(k, numbers, depth - 1)}: {_write(v, numbers, depth - 1)}" for k, v in value.items()]
            return "{" + ", ".join(pairs) + "}"
        parts = ", ".join(_write(part, numbers, depth - 1) for part in value)
        return f"({parts})" if kind is tuple else f"[{parts}]"
    name = attribute(value, "__qualname__")
    text = name if isinstance(name, str) else kind.__qualname__
    if (fields := _fields(value)) is not None and depth:
        text += "(" + ", ".join(f"{name}={_write(part, numbers, depth - 1)}" for name, part in fields.items()) + ")"
        if _is_generated(kind.__hash__):  # equal where the fields are
            return text
    by_identity = kind.__hash__ is object.__hash__
    number = numbers.of(value, text) if numbers is not None and by_identity else None
    return f"{text} #{number}" if number is not None else text + _hash(value)


def _fields(value: Any) -> dict[str, Any] | None:
    """The fields of a dataclass or a named tuple, None for anything else."""
    names: tuple[str, ...] | None = attribute(value, "_fields")
    if isinstance(value, tuple) and names is not None:
        return dict(zip(names, value, strict=False))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        own = held(value)
        return {field.name: own[field.name] for field in dataclasses.fields(value) if field.name in own}
    return None


def _is_generated(hash_: Any) -> bool:
    code = getattr(hash_, "__code__", None)
    return hash_ is tuple.__hash__ or (code is not None and code.co_filename == "<string>")


def _is_number(value: Any) -> bool:
    """Whether `value` is one of NumPy's numbers."""
    return type(value).__module__ == "numpy" and getattr(value, "shape", None) == () and hasattr(value, "item")


def _hash(value: Any) -> str:
    """What tells two objects of one type apart, as far as their own hash does."""
    try:
        return f"#{hash(value) & 0xFFFFFFFF:08x}"
    except our_errors():
        return ""
