"""Says in text what TensorFlow traces: whose function, where it is defined, and the key that it is kept under.

TensorFlow traces anew for any difference between two keys; what this module writes down of them is all that differs.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType, FrameType, FunctionType
from typing import Any

from coldstep import context as forms
from coldstep.events import Args
from coldstep.places import Origin, Places, absolute, frames, location, location_of, variables
from coldstep_collectors.remade import known_by
from coldstep_collectors.tensorflow._private import hooks as private
from coldstep_collectors.tensorflow._private.hooks import Container, Held, Tensor, Tracing, Value
from coldstep_collectors.tensorflow._private.keras_models import layers_and_weights
from coldstep_collectors.values import Codes, Numbers, cut, dtype_text, is_plain

_LEAVES_LIMIT = 4096
_MOST_EARLIER = 32  # variants from before the trace that are told
_OF_THE_FUNCTION = {form.word for form in (forms.FUNCTION, forms.CLOSURE, forms.GLOBAL, forms.ATTRIBUTE)}
_FREED = "freed object"
_CONTEXT = {
    "parent_graph": "graph",
    "device_functions": "device",
    "colocation_stack": "colocation",
    "in_cross_replica_context": "cross-replica",
    "variable_policy": "variable policy",
    "xla_context_id": "XLA context",
}
"""What TensorFlow calls the parts of a call's context, and what a user would."""


class Describer:
    """Says in text what a trace is of: the arguments of its compile, as `CompileArgs` lists them."""

    def __init__(self, tensorflow: Any) -> None:
        self.places = Places(tensorflow)
        self._codes = Codes()
        self._saved = Numbers()
        self._functions = Numbers()
        self._captured: dict[tuple[int, str], dict[str, str]] = {}
        self._instances = Numbers()
        self._weights = Numbers()
        self._models: dict[tuple[object, ...], int] = {}
        self._objects = Numbers()
        self._graphs = Numbers()

    def describe(self, tracing: Tracing, owner: FrameType | None, captured: dict[str, str], *, inner: bool) -> Args:
        """Everything that is known as a trace begins; `owner` is the `running_method`, `captured` what the function
        holds, `inner` whether another trace is under way around it."""
        layers = tracing.layers()
        code = next(filter(None, map(private.code_of, reversed(layers))), None)
        saved = next((each for each in layers if private.saved_name(each) is not None), None)
        origin = self._origin(tracing, code, inner=inner or owner is None)
        if saved is not None and not inner and not private.is_of_resource(saved):
            origin = "user"
        name, file, line = self._named(layers, code)
        title = name
        instance = private.instance_of(layers)
        if origin == "user" and owner is not None and not self.places.is_users(file):
            instance, title = running(owner)
        number = self._codes.of(code, file) if code is not None else None
        if saved is not None:  # all functions of loaded models are one code
            number = self._saved.of(saved, file)
        identity = f"{title} {'code' if saved is None else 'saved'} {number}" if code is not None else ""
        if tracing.jitted and identity:  # made for XLA, it is not the same once more
            identity += " for XLA"
        if instance is not None and identity:
            number_of = self._model(instance) or self._instances.of(instance, _class(instance))
            identity += f" of {_class(instance)} {number_of}"
        inputs, context = self.signature(tracing.traced, tracing.context, tracing.rest())
        if origin == "user" and (number := self._functions.of(tracing.owner, identity)):
            run = self._codes.run(code) if code is not None else ""
            context[forms.FUNCTION.key()] = f"{title} #{number}{run}"
            # what it holds makes it another function where it is made, and no other variant later
            context |= self._captured.setdefault((number, identity), captured)
        caller = self.places.users_frame(tracing.frame)
        return {
            "function": title,
            "origin": origin,
            "key": f"tensorflow:{file}:{name}",
            "identity": identity,
            "location": location(file, line, name) if file and saved is None else None,
            "caller": location_of(caller) if caller is not None else None,
            "inputs": inputs,
            "context": context,
            **({"known_by": by} if origin == "user" and (by := known_by(layers)) is not None else {}),
        }

    def running_method(self, frame: FrameType) -> FrameType | None:
        """The innermost method of an installed library's, other than TensorFlow's, that is running."""
        for each in frames(frame):
            file = each.f_code.co_filename
            if self.places.is_users(file):
                return None
            if not self.places.is_known(file) and each.f_code.co_varnames[: each.f_code.co_argcount][:1] == ("self",):
                return each
        return None

    def running_model(self, frame: FrameType) -> Any:
        """The library's object whose method runs, as a Keras model; None where none does."""
        owner = self.running_method(frame)
        return running(owner)[0] if owner is not None else None

    def _model(self, instance: Any) -> str:
        """Of a model of Keras' layers, the number of these and their weights: one that is made anew over the same ones
        computes what the one before computed. "" of any other object, and where it has no weights."""
        layers, weights = layers_and_weights(instance) or ([], [])
        numbers = (*map(self._weights.of, weights),)
        if not numbers or None in numbers:
            return ""
        return f"layers {self._models.setdefault((*layers, *numbers), len(self._models) + 1)}"

    def earlier(self, tracing: Tracing, about: Args) -> list[Args]:
        """The signatures of the variants that a function has from before the trace, each once; `about` describes
        the one to come."""
        function = {key: text for key, text in about["context"].items() if key.partition(" ")[0] in _OF_THE_FUNCTION}
        signatures: list[Args] = []
        for context, type_ in tracing.known()[-_MOST_EARLIER:]:
            inputs, known = self.signature(type_, context, tracing.rest(), bare=True)
            each = {"inputs": inputs, "context": function | known}
            if each not in signatures:
                signatures.append(each)
        return signatures

    def signature(
        self, type_: Any, context: Any, rest: str | None, *, bare: bool = False
    ) -> tuple[list[Args], dict[str, str]]:
        """A key of TensorFlow's as inputs and context; `bare` where the call's context is not wrapped."""
        inputs: list[Args] = []
        known: dict[str, str] = {}
        aliases: dict[Any, str] = {}
        for path, text, alias in self._walk(type_, rest, known):
            inputs.append({"argument": path, "type": text})
            if alias is not None and aliases.setdefault(alias, path) != path:
                known[forms.ALIAS.key(path)] = aliases[alias]
            if len(inputs) == _LEAVES_LIMIT:
                break
        known |= self._context(context, bare)
        return inputs, known

    def shapes(self, type_: Any, rest: str | None) -> Iterator[tuple[str, list[int | None]]]:
        """The dimensions of a call's tensors, by path; of those whose rank is known."""
        for path, part in self._leaves(type_, rest, {}):
            if isinstance(part, Tensor) and part.dims is not None:
                yield path, part.dims

    def tensors(self, type_: Any, rest: str | None) -> list[str] | None:
        """The paths of a call's tensors, in the order in which the graph takes them; None where an argument is one that
        TensorFlow takes apart in another way."""
        paths: list[str] = []
        for path, part in self._leaves(type_, rest, {}):
            if isinstance(part, Tensor) and part.kind in ("", "variable") and private.ELEMENT not in path:
                paths.append(path)
            elif not isinstance(part, (Value, Held)):
                return None
        return paths

    def values(self, type_: Any, options: Any) -> Iterator[tuple[str, str]]:
        """The Python values in a call's type, by path."""
        for path, part in self._leaves(type_, private.rest_of(options), {}):
            if isinstance(part, Value) and is_plain(part.value):
                yield path, cut(repr(part.value))

    # --- the function -----------------------------------------------------------------------------------------

    def parts(self, layers: list[Any], frame: FrameType) -> dict[str, Any]:
        """A model's layers by what the user calls each; else by their own names."""
        caller = self.places.users_frame(frame) if layers else None
        names = {id(value): name for name, value in variables(caller).items()} if caller is not None else {}
        return {names.get(id(each)) or str(getattr(each, "name", "layer")): each for each in layers}

    def _named(self, layers: list[Any], code: CodeType | None) -> tuple[str, str, int]:
        if code is None:
            return getattr(layers[-1], "__name__", type(layers[-1]).__name__), "", 0
        if (saved := next(filter(None, map(private.saved_name, layers)), None)) is not None:
            return saved, absolute(code.co_filename), code.co_firstlineno
        functions = (each.__qualname__ for each in reversed(layers) if isinstance(each, FunctionType))
        name = next(functions, code.co_qualname)
        return name.rpartition("<locals>.")[2], absolute(code.co_filename), code.co_firstlineno

    def _origin(self, tracing: Tracing, code: CodeType | None, *, inner: bool) -> Origin | None:
        """The user's own, and what a trainer's or a model library's method traces when the user calls it."""
        if tracing.of_data or tracing.scope == "NO_SCOPE":
            return "library"
        if code is None:
            return None
        file = absolute(code.co_filename)
        if self.places.is_users(file):
            return "user"
        return "library" if inner or self.places.is_known(file) else "user"

    # --- the key ----------------------------------------------------------------------------------------------

    def _walk(self, type_: Any, rest: str | None, known: dict[str, str]) -> Iterator[tuple[str, str, Any]]:
        for path, part in self._leaves(type_, rest, known):
            if isinstance(part, Tensor):
                yield path, tensor_text(part), part.alias
            elif isinstance(part, Value):
                yield path, cut(repr(part.value)) if is_plain(part.value) else _class(part.value), None
            elif isinstance(part, Held):
                yield path, self.object_text(part.object), None
            else:
                yield path, part.name, None

    def _leaves(self, type_: Any, rest: str | None, known: dict[str, str]) -> Iterator[tuple[str, Any]]:
        for name, constraint in private.parameters(type_):
            number = name.removeprefix(f"{rest}_") if rest is not None else name
            path = f"{rest}[{number}]" if number != name and number.isdecimal() else name
            yield from self._below(path, constraint, known)

    def _below(self, path: str, type_: Any, known: dict[str, str]) -> Iterator[tuple[str, Any]]:
        if isinstance(part := private.part_of(type_), Container):
            known[forms.TREE.key(path)] = cut(part.text)
            for suffix, child in part.parts:
                yield from self._below(path + suffix, child, known)
        else:
            yield path, part

    def object_text(self, thing: Any) -> str:
        """An object by its class, or a function by its name, and a number of its own: "Config #2"."""
        if thing is None:
            return _FREED
        name = thing.__qualname__ if isinstance(thing, FunctionType) else _class(thing)
        name = name.rpartition("<locals>.")[2]
        number = self._objects.of(thing, name)
        return f"{name} #{number}" if number is not None else name

    def _context(self, context: Any, bare: bool) -> dict[str, str]:
        texts: dict[str, str] = {}
        for part, value, usual in private.parts(context, bare=bare):
            if value == usual:
                continue
            name = _CONTEXT.get(part, part)
            text = f"graph #{self._graphs.of(value, 'graph')}" if part == "parent_graph" else self._setting(value)
            texts[forms.CONFIG.key(name)] = cut(text)
            known = "none" if usual in (None, ()) else str(usual)
            texts[forms.USUAL.key(name)] = "eager" if part == "parent_graph" else known
        return texts

    def _setting(self, value: Any) -> str:
        if isinstance(value, tuple):
            return ", ".join(map(self._setting, value)) or "none"
        name = getattr(value, "name", None)
        return value if isinstance(value, str) else repr(value) if is_plain(value) else str(name or _class(value))


def tensor_text(part: Tensor) -> str:
    """A tensor's type, as "f32[None,4] ragged"."""
    dims = "*" if part.dims is None else ",".join(map(str, part.dims))
    words = [f"{dtype_text(getattr(part.dtype, 'name', str(part.dtype)))}[{dims}]", part.kind]
    return " ".join(filter(None, [*words, "frozen" if part.frozen else ""]))


def running(method: FrameType) -> tuple[Any, str]:
    """The object whose method runs in a frame, and that method's name with the object's class."""
    instance = method.f_locals["self"]
    return instance, f"{type(instance).__name__}.{method.f_code.co_name}"


def _class(thing: Any) -> str:
    return type(thing).__qualname__.rpartition("<locals>.")[2]
