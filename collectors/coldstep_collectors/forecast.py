"""Says which calls of a function will compile, by the rules of the framework that it is for. Imports no framework."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from itertools import chain
from types import FunctionType
from typing import Any

from coldstep.foretold import Call, Foretold
from coldstep.session import active
from coldstep_collectors.values import closure, globals_read

_STACKS = {"jax": "jax", "dynamo": "torch", "torch_xla": "torch", "tensorflow": "tensorflow"}
"""The stacks that can foretell, each with its framework's package."""


def foretell(function: Callable[..., Any], calls: Iterator[Call], feed: Mapping[str, str]) -> Foretold:
    """What the rules of the function's framework say of these calls."""
    if active() is not None:
        raise RuntimeError("a coldstep trace is active: it would take what is tried here for the program's own")
    first = next(calls, None)
    stack = _stack_of(function, first)
    rules = import_module(f"coldstep_collectors.forecast_{stack}")
    given = chain([first] if first is not None else [], calls)
    found: Foretold = rules.foretell(function, given, feed)
    return found


def _stack_of(function: Any, call: Call | None) -> str:
    """The framework that compiles the function: whose object it is, else whose arguments it takes, or holds."""
    kinds = {each.__module__.partition(".")[0] for each in type(function).__mro__}
    if "jaxlib" in kinds or hasattr(function, "_jit_info"):
        return "jax"
    if "tensorflow" in kinds:
        return "tensorflow"
    found = "dynamo" if "torch" in kinds or hasattr(function, "get_compiler_config") else ""
    values = list(_values((call.args, call.kwargs))) if call is not None else []
    packages = {type(value).__module__.partition(".")[0] for value in values}
    if not hasattr(function, "get_compiler_config") and any(map(_is_lazy, (*values, *_held(function)))):
        return "torch_xla"
    if found or "torch" in packages:
        return "dynamo"
    for package, stack in (("jaxlib", "jax"), ("jax", "jax"), ("tensorflow", "tensorflow")):
        if package in packages:
            return stack
    imported = [stack for stack in ("jax", "dynamo", "tensorflow") if _STACKS[stack] in sys.modules]
    if len(imported) == 1:
        return imported[0]
    raise ValueError(
        "which framework compiles the function is not to be seen: give one that is compiled (jax.jit, torch.compile, "
        "tf.function), or arguments that are its arrays"
    )


def _held(function: Any) -> Iterator[Any]:
    """What a function of the user's own reads by name."""
    inner = getattr(function, "__wrapped__", function)
    inner = getattr(inner, "__func__", inner)
    if isinstance(inner, FunctionType):
        yield from (value for _, value in closure(inner))
        yield from (inner.__globals__.get(name) for name in globals_read(inner.__code__))


def _is_lazy(value: Any) -> bool:
    """Whether a tensor, or the first parameter of a module, is one of torch_xla's."""
    if callable(getattr(type(value), "parameters", None)):
        value = next(iter(value.parameters()), None)
    return getattr(getattr(value, "device", None), "type", "") == "xla"


def _values(tree: Any, depth: int = 4) -> Iterator[Any]:
    """The leaves of plain containers."""
    if depth and isinstance(tree, Mapping):
        for part in tree.values():
            yield from _values(part, depth - 1)
    elif depth and isinstance(tree, (tuple, list)):
        for part in tree:
            yield from _values(part, depth - 1)
    else:
        yield tree
