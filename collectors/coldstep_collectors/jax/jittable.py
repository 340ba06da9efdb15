"""Which of the user's functions around an eager operation may be jitted as it is: by its code, by what it was given,
and by what it reads. And which line makes a module, or its weights, by many operations.

A function is given arrays alone, or modules of Flax's or Equinox', which have a `jit` of their own. It reads each time
the same objects of its module, branches on nothing, and stores nothing outside of itself; nor does a function of the
user's that it calls by name. It reads no object of a class of theirs.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import pairwise
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from coldstep.errors import our_errors
from coldstep.events import Args
from coldstep.named_tuple import NamedTuple
from coldstep.places import Places, arguments, location_of
from coldstep_collectors.bytecode import loops, with_nested
from coldstep_collectors.values import attribute, globals_read, held

_STORES = ("STORE_ATTR", "STORE_SUBSCR", "STORE_GLOBAL", "STORE_DEREF", "DELETE_", "YIELD_", "SEND", "RAISE_VARARGS")
_NEEDS_VALUE = {"print", "float", "int", "bool", "item", "tolist", "block_until_ready", "device_get", "np", "numpy"}
"""Names of what asks for an array's value, or shows it."""
_ASKS_ARRAY = {"item", "tolist", "block_until_ready", "device_get"}
"""Those that a module's method, which has plain values of its own, asks of an array alone."""
_PLAIN_TESTS = ("LOAD_FAST", "LOAD_ATTR", "IS_OP", "CONTAINS_OP", "COPY", "TO_BOOL", "UNARY_NOT")
"""Instructions that stand before a branch on a flag, and not on a result."""
_LINEN, _NNX, _EQUINOX = "flax.linen", "flax.nnx", "equinox"
_JITS = {_NNX: "flax.nnx.jit", _EQUINOX: "equinox.filter_jit"}
"""What jits a function that is given, or makes, a module of these."""
_STATEFUL = ("numpy.random", "random")
"""Modules whose objects give another value in each call."""
_DEEPEST = 3  # functions that a function calls
_MOST_PARTS = 1_000  # of a module


class _Known(NamedTuple):
    """What is known of a function's code."""

    reads: frozenset[str]
    """The globals that it reads."""
    is_straight: bool
    """Whether it neither branches nor stores anything outside of itself."""
    is_layers: bool
    """Whether a module's method that has this code asks for no array's value."""
    first: dict[str, int]
    """The ids of what it read when it was first seen."""


class Jittable:
    """Looks at the functions of one program, and remembers what they read."""

    def __init__(self, jax: Any, places: Places) -> None:
        self._jax = jax
        self._places = places
        self._known: dict[CodeType, _Known] = {}

    def around(self, frames: Iterable[FrameType]) -> Args:
        """Of the user's frames, from the innermost outwards, one of: "jittable", the running line of the outermost
        function that may be jitted, as may all that it runs in them; "looped_at", that of the outermost loop; or
        "made_at", that which makes a module or its weights, with "made", the name that it calls for that. "by": what
        jits it."""
        outermost, inner, by, made = None, list[FrameType](), "", ""
        waiting = [*frames]
        while waiting:
            frame = waiting[0]
            if inner and any(each.f_code not in frame.f_code.co_consts for each in inner):
                break
            if library := _method_of(frame):
                if not self._of_code(frame.f_code, frame.f_globals).is_layers:
                    break
                by, made = self._making(frame, library, by)
                inner = []
            elif _is_within_next(frame.f_code):
                inner = [frame]
                made = "" if loops(frame.f_code, frame.f_lasti) else made
                if not self._of_code(frame.f_code, frame.f_globals).is_straight:
                    break
            else:
                inner = []
                if (jit := self._may_be(frame)) is None:
                    break
                outermost, by, made = frame, jit or by, ""
            del waiting[0]
        by = by or "jax.jit"
        if outermost is not None:
            return {"jittable": location_of(outermost), "by": by}
        looping = [each for each in waiting if loops(each.f_code, each.f_lasti)]
        if looping:
            return {"looped_at": location_of(looping[-1])}
        return {"made_at": location_of(waiting[0]), "made": made, "by": by} if made and waiting else {}

    @staticmethod
    def _making(frame: FrameType, library: str, by: str) -> tuple[str, str]:
        """What jits the making of a module of which a method runs, and the name that is called for it; "" of none."""
        if library == _LINEN:
            return by, "init"
        if frame.f_code.co_name == "__init__":
            return _JITS[library], type(arguments(frame)[0][1]).__name__
        return by, ""

    def _may_be(self, frame: FrameType) -> str | None:
        """What jits a function, "" where anything does; None where it may not be jitted."""
        given = [value for _, value in arguments(frame)]
        if not given or not self._is_the_same(frame.f_code, frame.f_globals, _DEEPEST):
            return None
        jits = {self._jit_of(value) for value in given}
        return None if None in jits else max(jits, key=str)

    def _is_the_same(self, code: CodeType, names: dict[str, Any], depth: int) -> bool:
        """Whether a function, and those of the user's that it calls, are straight and read what they read before."""
        known = self._of_code(code, names)
        held = {name: names[name] for name in known.reads if name in names}
        if depth == 0 or not known.is_straight or any(known.first.get(name) != id(held[name]) for name in held):
            return False
        return all(self._may_be_called(each, depth) for each in held.values())

    def _may_be_called(self, value: Any, depth: int) -> bool:
        """Whether nothing that the user wrote hides behind what a function reads, but functions that are as plain."""
        while isinstance(value, partial):
            value = value.func
        if isinstance(value, FunctionType):
            is_users = self._places.is_users(value.__code__.co_filename)
            return not is_users or self._is_the_same(value.__code__, value.__globals__, depth - 1)
        if not isinstance(value, ModuleType):  # an object has methods, a class makes objects
            kind = value if isinstance(value, type) else type(value)
            if _library(kind) == _LINEN:  # whose objects hold no arrays
                return True
            if kind is not value and (_library(kind) == _NNX or _changes(kind)):
                return False
            value = sys.modules.get(kind.__module__)
        file = attribute(value, "__file__")
        return not self._places.is_users(file) if file else attribute(value, "__name__") not in (None, "__main__")

    def _of_code(self, code: CodeType, names: dict[str, Any]) -> _Known:
        if (known := self._known.get(code)) is None:
            reads = globals_read(code)
            first = {name: id(names[name]) for name in reads if name in names}
            known = _Known(reads, all(map(_is_straight, with_nested(code))), _is_layers(code), first)
            self._known[code] = known
        return known

    def _jit_of(self, value: Any) -> str | None:
        """What jits a function that is given this, "" where anything does; None where nothing does."""
        library = _library(type(value))
        if library and not all(map(self._is_layers, {type(each) for each in _modules(value)})):
            return None
        if library == _NNX:
            return _JITS[_NNX]
        try:
            leaves = self._jax.tree_util.tree_leaves(value)
        except our_errors():  # a container that JAX cannot take apart
            return None
        others = [leaf for leaf in leaves if not (attribute(leaf, "aval") is not None or _is_numpys(leaf))]
        if library == _EQUINOX:
            return _JITS[_EQUINOX]
        if _is_of(type(value), "flax"):  # a state counts its steps by a number
            others = [leaf for leaf in others if type(leaf) is not int]
        return "" if leaves and not others else None

    def _is_layers(self, kind: type) -> bool:
        """Whether no method that the user wrote for a module asks for an array's value."""
        methods = (each for base in kind.__mro__ for each in vars(base).values() if isinstance(each, FunctionType))
        users = (each for each in methods if self._places.is_users(each.__code__.co_filename))
        return all(self._of_code(each.__code__, each.__globals__).is_layers for each in users)


def _modules(value: Any) -> Iterator[Any]:
    """A module, and those that it holds."""
    waiting, seen = [value], set[int]()
    while waiting and len(seen) < _MOST_PARTS:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if _library(type(each)):
            yield each
            waiting += held(each).values()
        elif isinstance(each, list | tuple):
            waiting += each
        elif isinstance(each, dict):
            waiting += each.values()


def _library(kind: type) -> str:
    """Whose module a class is, Flax' or Equinox'; "" of any other class."""
    return next((each for each in (_LINEN, _NNX, _EQUINOX) if _is_of(kind, each)), "")


def _is_of(kind: type, library: str) -> bool:
    """Whether a class is a library's, or made of one of its classes."""
    return any(f"{base.__module__}.".startswith(f"{library}.") for base in kind.__mro__)


def _changes(kind: type) -> bool:
    """Whether an object of a class gives another value each time that it is asked."""
    return hasattr(kind, "__next__") or kind.__module__.startswith(_STATEFUL)


def _is_within_next(code: CodeType) -> bool:
    """Whether it is a function within the one that calls it, of whose variables it reads some, or a part of it."""
    return bool(code.co_freevars) or code.co_name in ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")


def _method_of(frame: FrameType) -> str:
    """Whose module, Flax' or Equinox', it is of which a method runs; "" of any other function."""
    code = frame.f_code
    is_method = code.co_argcount > 0 and code.co_varnames[0] == "self"
    return _library(type(arguments(frame)[0][1])) if is_method else ""


def _is_numpys(leaf: Any) -> bool:
    """Whether it is an array of NumPy's that JAX takes."""
    return type(leaf).__module__ == "numpy" and type(leaf).__name__ == "ndarray" and leaf.dtype.kind in "biufc"


def _is_straight(code: CodeType) -> bool:
    if _NEEDS_VALUE & {*code.co_names}:
        return False
    operations = [each.opname for each in dis.get_instructions(code)]
    branches = any("_IF_" in each and "NONE" not in each for each in operations)
    return not branches and not any(each.startswith(_STORES) for each in operations)


def _is_layers(code: CodeType) -> bool:
    """Whether a method asks for no array's value: the making of a module may branch on all that it is given, and layers
    on flags."""
    if _ASKS_ARRAY & {*code.co_names}:
        return False
    operations = [each.opname for each in dis.get_instructions(code)]
    return code.co_name == "__init__" or all(
        before.startswith(_PLAIN_TESTS)
        for before, each in pairwise(operations)
        if "_IF_" in each and "NONE" not in each
    )
