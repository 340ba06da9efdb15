"""Which of the user's functions keeps a step from being traced as it is: one that asks for a value, or keeps one."""

from __future__ import annotations

import dis
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from types import CodeType, FunctionType, MethodType
from typing import Any

from coldstep_collectors.bytecode import with_nested
from coldstep_collectors.tensorflow._private.hooks import layers_of
from coldstep_collectors.values import attribute, closure, held

_ASKS = {"numpy", "np", "item", "tolist", "float", "int", "bool", "print"}
"""Names of what asks a tensor for its value, or shows it."""
_KEEPS = ("STORE_ATTR", "STORE_SUBSCR", "STORE_GLOBAL")
_CALLS = {"call", "__call__"}
_MOST = 200  # functions and objects


def keeps_from_tracing(things: Iterable[Any], names: Iterable[str], is_users: Callable[[str], bool]) -> str:
    """The name of the first of the user's functions that may not be traced as it is, among functions and objects, of
    which those methods are called; and what these call by name. "" where there is none."""
    waiting = deque((each, frozenset(names)) for each in things)
    seen: set[int] = set()
    while waiting and len(seen) < _MOST:
        thing, used = waiting.popleft()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        for function in _functions(thing, used):
            code = function.__code__
            if not is_users(code.co_filename):
                continue
            if id(code) not in seen and _may_not(code):
                return code.co_qualname.rpartition("<locals>.")[2]
            seen.add(id(code))
            reads = frozenset(name for each in with_nested(code) for name in each.co_names)
            held = [function.__globals__[name] for name in reads if name in function.__globals__]
            held += [value for _, value in closure(function)]
            waiting.extend((each, reads) for each in held if not isinstance(each, type))
        waiting.extend((each, used) for each in _parts(thing, used))
    return ""


def _functions(thing: Any, used: frozenset[str]) -> Iterator[FunctionType]:
    """What runs where a function, or an object by one of its methods, is called."""
    for each in layers_of(attribute(thing, "python_function", thing)):
        if isinstance(each, FunctionType):
            yield each
        elif not isinstance(each, MethodType | type):
            methods = chain.from_iterable(vars(kind).items() for kind in type(each).__mro__)
            called = (method for name, method in methods if name in used | _CALLS)
            yield from (method for method in called if isinstance(method, FunctionType))


def _parts(thing: Any, used: frozenset[str]) -> Iterator[Any]:
    """What an object holds under a name that is used; of a Keras model the layers, and what its own step calls."""
    if isinstance(thing, FunctionType | MethodType | type):
        return
    yield from (value for name, value in list(held(thing).items()) if name in used and callable(value))
    if attribute(thing, "train_step") is not None and attribute(thing, "layers") is not None:
        for name in ("layers", "loss", "metrics") if "train_step" in used else ("layers",):
            value = attribute(thing, name)
            yield from value if isinstance(value, list) else [value]
    elif callable(fn := attribute(thing, "_fn")):
        yield fn


def _may_not(code: CodeType) -> bool:
    return any(
        not _ASKS.isdisjoint(each.co_names) or any(step.opname in _KEEPS for step in dis.get_instructions(each))
        for each in with_nested(code)
    )
