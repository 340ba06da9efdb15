"""What a traced function holds beyond its arguments: as it was in the trace, and whether it has changed since.

A framework reads it once, as Python, when it traces; no later call of the program sees a change.
"""

from __future__ import annotations

import dis
import weakref
import zlib
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from coldstep import context as forms
from coldstep._util.slotted import slotted
from coldstep.context import Form
from coldstep.places import Places, absolute
from coldstep_collectors.bytecode import accesses, with_nested
from coldstep_collectors.optimizers import FIRST_STATE, UPDATE, differing, is_optimizer, optimizer_text
from coldstep_collectors.values import Numbers, array_class, closure, cut, held, is_plain

LOSS_WEIGHTS = "loss_weights of model.compile()"
_INNER_FUNCTIONS = 3  # levels of functions that a function calls
_MOST = 64  # places that are watched
_LARGEST_BYTES = 1 << 16  # of an array that is held against what it was
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
_CHANGES_IT = ("append", "extend", "insert", "add", "update", "clear", "remove", "discard")
_WRITES = ("STORE_ATTR", "STORE_GLOBAL", "STORE_DEREF")
_FORMS = {"GLOBAL": forms.GLOBAL, "DEREF": forms.CLOSURE}

_MISSING: Any = object()


@slotted
class Changed:
    """Something that a program holds as it was."""

    name: str
    was: str
    now: str
    is_optimizer: bool = False
    is_choice: bool = False
    """A function, a text or a flag: no array can stand for it."""


@slotted
class _Place:
    """Where a value is read from, without keeping anything alive."""

    form: Form
    name: str
    function: weakref.ref[Any]
    owner: weakref.ref[Any] | None
    key: str = ""
    """Under what the owner has it, where that is another name."""
    was: str = ""
    is_optimizer: bool = False

    def read(self) -> Any:
        """The value now; `_MISSING` where it cannot be read any more."""
        root, _, attribute = self.name.partition(".")
        function, owner = self.function(), self.owner() if self.owner is not None else None
        if function is None:
            return _MISSING
        if self.form is forms.ATTRIBUTE:
            value = owner
        elif self.form is forms.GLOBAL:
            value = function.__globals__.get(root, _MISSING)
        else:
            value = next((value for name, value in closure(function) if name == root), _MISSING)
        if not attribute or value is _MISSING or value is None:
            return value if not attribute else _MISSING
        return held(value).get(self.key or attribute, _MISSING)

    def is_read(self) -> bool:
        """Whether the function's instructions read it, and write none of it; of an optimizer, more than its `init`."""
        function = self.function()
        if not isinstance(function, FunctionType):
            return False
        own = self.name.partition(".")[0] if self.form is forms.ATTRIBUTE else None
        reads = {*_reads(function.__code__, own, () if self.is_optimizer else _CHANGES_IT)}
        if self.is_optimizer and (self.form, f"{self.name}.{FIRST_STATE}") in reads:
            return (self.form, f"{self.name}.{UPDATE}") in reads
        return (self.form, self.name) in reads


class Captures:
    """What one function holds, `owner`'s method or a plain one; made when it is traced. `layers`: the function, and
    what it wraps. `parts`: the layers of a Keras model that it runs, by what the user calls each. `set_up`: what that
    keeps of its compile(). `later`: to look at the instructions only of what has changed, which takes much less time in
    a trace."""

    def __init__(
        self,
        layers: list[Any],
        owner: Any,
        places: Places,
        numbers: Numbers,
        parts: Mapping[str, Any] | None = None,
        *,
        set_up: Any = None,
        later: bool = False,
    ) -> None:
        self._numbers = numbers
        self._later = later
        values: list[tuple[_Place, Any]] = []
        function = next((each for each in reversed(layers) if isinstance(each, FunctionType)), None)
        if function is not None:
            seen: set[CodeType] = set()
            self._add(values, function, owner, places, _INNER_FUNCTIONS, seen)
            for name, part in (parts or {}).items():
                of = weakref.ref(function), _weak(part)
                trains = _Place(forms.ATTRIBUTE, f"{name}.trainable", *of, "_trainable")
                values.append((trains, trains.read()))
                if isinstance(call := getattr(type(part), "call", None), FunctionType):
                    self._add(values, call, part, places, _INNER_FUNCTIONS, seen)
            if set_up is not None:
                of = weakref.ref(function), _weak(set_up)
                weights = _Place(forms.ATTRIBUTE, LOSS_WEIGHTS, *of, "_user_loss_weights")
                values.append((weights, weights.read()))
        del values[_MOST:]
        for place, value in values:
            place.was, place.is_optimizer = self._text(value), is_optimizer(value)
        self._places = [place for place, _ in values if place.was]

    def context(self) -> dict[str, str]:
        """The values, as a signature's context has them."""
        return {place.form.key(place.name): place.was for place in self._places}

    def remember(self) -> None:
        """Take the value at the trace's end as the one it has read: a function may have set it itself."""
        for place in self._places:
            place.was = self._text(place.read()) or place.was

    def name_of(self, thing: Any) -> str | None:
        """What the function calls something that it holds; None where it does not read it by a name."""
        return next((place.name for place in self._places if place.read() is thing), None)

    def value_of(self, name: str) -> str:
        """What it holds under a name, as it was in the trace; "" where it holds none, or that has changed."""
        return next((place.was for place in self._places if place.name == name), "")

    def __bool__(self) -> bool:
        return bool(self._places)

    def changed(self) -> list[Changed]:
        """The captures with another value now, each reported once."""
        stale = []
        for place in list(self._places):
            value = place.read()
            let_go = value is None and place.form is forms.ATTRIBUTE  # by an object that is done, perhaps
            now = "" if self._later and let_go else self._text(value)
            if now and now != place.was and not (self._later and not place.is_read()):
                was, is_ = place.was, place.is_optimizer
                texts = differing(was, now) if is_ else (was, now)
                stale.append(Changed(place.name, *texts, is_, isinstance(value, FunctionType | str | bool)))
                self._places.remove(place)
        return stale

    def _add(
        self,
        values: list[tuple[_Place, Any]],
        function: FunctionType,
        owner: Any,
        places: Places,
        depth: int,
        seen: set[CodeType],
    ) -> None:
        """Add the places that a function reads, and their values."""
        code = function.__code__
        if depth == 0 or code in seen or not places.is_users(absolute(code.co_filename)):
            return
        seen.add(code)
        known = {(place.form, place.name) for place, _ in values}
        own = code.co_varnames[0] if owner is not None and code.co_argcount else None
        inner: list[tuple[Any, Any]] = []
        for form, name in _named(function, own, owner) if self._later else _reads(code, own):
            place = _Place(form, name, weakref.ref(function), _weak(owner) if form is forms.ATTRIBUTE else None)
            value = place.read()
            if isinstance(value, FunctionType):
                inner.append((value, None))
                if self._later and form is forms.ATTRIBUTE and (form, name) not in known:
                    values.append((place, value))
            elif isinstance(value, MethodType):
                inner.append((value.__func__, value.__self__))
            elif value is not _MISSING and (form, name) not in known:
                values.append((place, value))
        for each, its in inner:
            if isinstance(each, FunctionType):
                self._add(values, each, its, places, depth - 1, seen)

    def _text(self, value: Any) -> str:
        """A value that tracing reads as Python; "" for whatever cannot be told from another."""
        if self._later and isinstance(value, FunctionType):
            return _place_of(value.__code__)
        if value is _MISSING or isinstance(value, (FunctionType, MethodType, type, ModuleType)):
            return ""
        if is_plain(value):
            return cut(repr(value))
        kind = type(value)
        if is_optimizer(value):
            return optimizer_text(value)
        match array_class(value):
            case "ArrayImpl":
                return f"array {value.dtype.name}{list(value.shape)} #{self._numbers.of(value, 'array')}"
            case "EagerTensor":
                if value.shape.rank == 0 and "CPU" in value.device:
                    return f"tensor {value.numpy()!r}"
                return f"tensor #{self._numbers.of(value, 'tensor')}"
            case "ResourceVariable":
                return f"variable #{self._numbers.of(value, 'variable')}"
        if kind.__module__.partition(".")[0] == "numpy":
            if kind.__name__ == "ndarray" and value.nbytes <= _LARGEST_BYTES:
                return f"array {value.dtype.name}{list(value.shape)} #{zlib.crc32(value.tobytes()):08x}"
            if getattr(value, "shape", None) == () and hasattr(value, "item"):
                return f"{kind.__name__}({value.item()!r})"
        return ""


def _named(function: FunctionType, own: str | None, owner: Any) -> Iterator[tuple[Form, str]]:
    """At least what `_reads` finds, by the names that the code holds."""
    names = dict.fromkeys(name for code in with_nested(function.__code__) for name in code.co_names)

    def of(root: str, value: Any) -> Iterator[str]:
        attributes = _attributes(value)
        return (f"{root}.{each}" for each in names if each in attributes)

    held = {name: function.__globals__[name] for name in names if name in function.__globals__}
    for form, values in ((forms.GLOBAL, held), (forms.CLOSURE, dict(closure(function)))):
        for name, value in values.items():
            yield form, name
            yield from ((form, each) for each in of(name, value))
    if own is not None:
        yield from ((forms.ATTRIBUTE, each) for each in of(own, owner))


def _attributes(value: Any) -> Mapping[str, Any]:
    is_code = isinstance(value, (FunctionType, MethodType, ModuleType, type))
    return {} if is_code else held(value)


@lru_cache(maxsize=256)  # a function that is made anew each time has one code
def _reads(code: CodeType, own: str | None, changes_it: tuple[str, ...] = _CHANGES_IT) -> tuple[tuple[Form, str], ...]:
    """The names that a function reads from outside its arguments, and the attributes of what they hold; `own` is the
    object whose method it is. An attribute of the names `changes_it` reads nothing."""
    return (*_names_read(code, own, changes_it),)


def _names_read(code: CodeType, own: str | None, changes_it: Collection[str]) -> Iterator[tuple[Form, str]]:
    steps = list(dis.get_instructions(code))
    touched = [[*accesses(step)] for step in steps]
    written = {step.argval for step in steps if step.opname in _WRITES}
    if any((each.verb, each.name) == ("STORE", own) for row in touched for each in row):
        own = None  # the name is another object's then
    for row, follows in zip(touched, [*steps[1:], None], strict=True):
        read = [each for each in row if each.verb == "LOAD"]
        for each in read:
            form = forms.ATTRIBUTE if each.name == own else _FORMS.get(each.scope)
            if form is None or each.name in written:
                continue
            if each is read[-1] and follows and follows.opname in _ATTRIBUTES and follows.argval in changes_it:
                continue  # messages.append: what it holds is not read
            if form is not forms.ATTRIBUTE:
                yield form, each.name
            if each is read[-1] and follows and follows.opname in _ATTRIBUTES and follows.argval not in written:
                yield form, f"{each.name}.{follows.argval}"
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_read(constant, own if own in constant.co_freevars else None, changes_it)


def _place_of(code: CodeType) -> str:
    """A function by where it is written: those that one line makes again and again are the same."""
    spans = [at[2:] for at in code.co_positions() if at[0] == code.co_firstlineno]
    columns = [begin for begin, end in spans if begin is not None and end is not None and end > begin]
    column = min(columns, default=None)
    return f"{code.co_name} of line {code.co_firstlineno}{'' if column is None else f', column {column}'}"


def _weak(thing: Any) -> weakref.ref[Any] | None:
    try:
        return weakref.ref(thing)
    except TypeError:
        return None
