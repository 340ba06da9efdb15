"""Which of the user's functions around an eager operation may be given to `jax.jit` as it is: by its code, by what it
was given, and by what it reads.

It is given arrays alone, reads each time the same objects of its module, branches on nothing, and stores nothing
outside of itself; nor does a function of the user's that it calls by name. It reads no object of a class of theirs.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any, NamedTuple

from coldstep.events import Args
from coldstep.places import Places, arguments, location_of
from coldstep_collectors.values import globals_read

_STORES = ("STORE_ATTR", "STORE_SUBSCR", "STORE_GLOBAL", "STORE_DEREF", "DELETE_", "YIELD_", "SEND", "RAISE_VARARGS")
_NEEDS_VALUE = {"print", "float", "int", "bool", "item", "tolist", "block_until_ready", "device_get", "np", "numpy"}
"""Names of what asks for an array's value, or shows it."""
_DEEPEST = 3  # functions that a function calls


class _Known(NamedTuple):
    """What is known of a function's code."""

    reads: frozenset[str]
    """The globals that it reads."""
    is_straight: bool
    """Whether it neither branches nor stores anything outside of itself."""
    first: dict[str, int]
    """The ids of what it read when it was first seen."""


class Jittable:
    """Looks at the functions of one program, and remembers what they read."""

    def __init__(self, jax: Any, places: Places) -> None:
        self._jax = jax
        self._places = places
        self._known: dict[CodeType, _Known] = {}

    def outermost(self, frames: Iterable[FrameType]) -> Args | None:
        """Where the outermost of the user's running functions is that may be jitted, as may all that it runs in them;
        `frames`: theirs, from the innermost outwards."""
        outermost, inner = None, list[FrameType]()
        for frame in frames:
            if inner and any(each.f_code not in frame.f_code.co_consts for each in inner):
                break
            inner = [frame] if frame.f_code.co_freevars else []
            if inner:  # a function within the next one, of whose variables it reads some
                if not self._of_code(frame.f_code, frame.f_globals).is_straight:
                    break
                continue
            if not self._may_be(frame):
                break
            outermost = frame
        return location_of(outermost) if outermost is not None else None

    def _may_be(self, frame: FrameType) -> bool:
        given = [value for _, value in arguments(frame)]
        return (
            bool(given)
            and self._is_the_same(frame.f_code, frame.f_globals, _DEEPEST)
            and all(map(self._is_of_arrays, given))
        )

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
            value = sys.modules.get(kind.__module__)
        file = getattr(value, "__file__", None)
        return not self._places.is_users(file) if file else getattr(value, "__name__", "__main__") != "__main__"

    def _of_code(self, code: CodeType, names: dict[str, Any]) -> _Known:
        if (known := self._known.get(code)) is None:
            reads = frozenset(globals_read(code))
            first = {name: id(names[name]) for name in reads if name in names}
            known = self._known[code] = _Known(reads, all(map(_is_straight, _codes(code))), first)
        return known

    def _is_of_arrays(self, value: Any) -> bool:
        try:
            leaves = self._jax.tree_util.tree_leaves(value)
        except Exception:  # a container that JAX cannot take apart
            return False
        return bool(leaves) and all(hasattr(leaf, "aval") or _is_numpys(leaf) for leaf in leaves)


def _is_numpys(leaf: Any) -> bool:
    """Whether it is an array of NumPy's that JAX takes."""
    return type(leaf).__module__ == "numpy" and type(leaf).__name__ == "ndarray" and leaf.dtype.kind in "biufc"


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)


def _is_straight(code: CodeType) -> bool:
    if _NEEDS_VALUE & {*code.co_names}:
        return False
    operations = [each.opname for each in dis.get_instructions(code)]
    branches = any("_IF_" in each and "NONE" not in each for each in operations)
    return not branches and not any(each.startswith(_STORES) for each in operations)
