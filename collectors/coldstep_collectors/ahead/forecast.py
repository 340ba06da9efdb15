"""Says which calls of a function will compile, by the rules of the framework that it is for. Imports no framework."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any

from coldstep.ahead.forecast_rows import Call, Foretold
from coldstep.session import active
from coldstep.vocabulary import STACKS
from coldstep_collectors.ahead.as_before import random_states
from coldstep_collectors.ahead.stack_of import stack_of
from coldstep_collectors.support import BY_STACK


def foretell(function: Callable[..., Any], calls: Iterator[Call], feed: Mapping[str, str]) -> Foretold:
    """The forecast of these calls by the rules of the function's framework."""
    if active() is not None:
        raise RuntimeError("a coldstep trace is active: it would record these trial calls as the program's own")
    first = next(calls, None)
    rules = BY_STACK[_stack_of(function, first)].module("forecast")
    given = chain([first] if first is not None else [], calls)
    with random_states():
        forecast: Foretold = rules.foretell(function, given, feed)
    return forecast


def _stack_of(function: Any, call: Call | None) -> str:
    """The framework that compiles the function; if unclear, the only imported one."""
    known = stack_of(function, *((call.args, call.kwargs) if call is not None else ()))
    imported = [stack.name for stack in STACKS if stack.compiler and stack.packages[0] in sys.modules]
    if known is not None or len(imported) == 1:
        return known or imported[0]
    raise ValueError(
        "cannot see which framework compiles this function: pass a compiled function (jax.jit, torch.compile, "
        "tf.function), or arguments that are its arrays"
    )
