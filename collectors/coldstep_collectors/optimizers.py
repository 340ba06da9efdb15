"""What an optimizer of Optax' kind computes with, in text: a named tuple of functions, which hold its numbers.

Two that were made alike have one text: each is another object, and computes the same.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import FunctionType
from typing import Any

from coldstep._util import python_text
from coldstep_collectors.values import TEXT_LIMIT, closure, cut, is_plain

_MOST = 200  # functions, and tuples and lists of them: a schedule's table of numbers may be long, or hold itself
FIRST_STATE, UPDATE = "init", "update"
"""The function that makes its first state, of which a step reads nothing, and the one that a step calls."""


def is_optimizer(value: Any) -> bool:
    """Whether a value is a named tuple of functions, with the two of an optimizer: a network has others beside `init`,
    and so has a sampler."""
    fields = getattr(type(value), "_fields", ())
    is_named = isinstance(value, tuple) and FIRST_STATE in fields and UPDATE in fields
    return is_named and all(map(callable, value))


def optimizer_text(optimizer: Any) -> str:
    """Its functions with the plain values that they hold: "GradientTransformation(chain(), scale(step_size=-0.1))"."""
    return f"{type(optimizer).__name__}({', '.join(_functions(optimizer, []))})"


def differing(before: str, after: str) -> tuple[str, str]:
    """Both texts, without the functions that both have; whole where these differ in nothing but their order."""
    try:
        sides = [python_text.tree(each) for each in (before, after)]
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return cut(before), cut(after)
    calls = [[ast.unparse(call) for call in side.args] if isinstance(side, ast.Call) else [] for side in sides]
    own = [[call for call in calls[at] if call not in calls[1 - at]] for at in (0, 1)]
    if not any(own):
        return cut(before), cut(after)
    names = (each.partition("(")[0] for each in (before, after))
    was, now = (cut(f"{name}({', '.join(each)})") for name, each in zip(names, own, strict=True))
    return was, now


def _functions(value: Any, seen: list[Any]) -> Iterator[str]:
    """Each function within a value: the name of what made it, with what it holds."""
    if not isinstance(value, FunctionType | tuple | list) or len(seen) == _MOST or any(value is each for each in seen):
        return
    seen.append(value)
    if isinstance(value, FunctionType):
        yield from _function(value, seen)
    elif is_optimizer(value):
        for name, each in zip(getattr(type(value), "_fields", ()), value, strict=True):
            if name != FIRST_STATE:
                yield from _functions(each, seen)
    elif type(value) in (tuple, list) and len(value) <= TEXT_LIMIT:
        for each in value:
            yield from _functions(each, seen)


def _function(value: FunctionType, seen: list[Any]) -> Iterator[str]:
    made_by = value.__qualname__.partition(".<locals>")[0].rpartition(".")[2]
    variables = dict(closure(value))
    numbers = (f"{name}={each!r}" for name, each in variables.items() if is_plain(each))
    yield f"{made_by.strip('<>')}({', '.join(numbers)})"
    for each in variables.values():
        yield from _functions(each, seen)
