"""Looks up a function that a log speaks of in the user's files, where they are at hand: what its parameters are."""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
from dataclasses import dataclass

from coldstep.events import Args
from coldstep.places import location


@dataclass(slots=True, frozen=True)
class Parameters:
    """The parameters of a function: those by position without `self`, then all; `*rest` and `**rest`."""

    positional: list[str]
    names: set[str]
    rest: str | None
    keywords: str | None


def parameters(file: str, line: int, name: str) -> Parameters | None:
    """Those of the function `name` whose definition, or first decorator, is at that line; None if it is not there."""
    lines = linecache.getlines(file)[line - 1 :] if line > 0 else []
    if not lines:
        return None
    try:
        (definition,) = ast.parse(textwrap.dedent("".join(inspect.getblock(lines)))).body
    except (SyntaxError, ValueError, IndentationError):
        return None
    if not isinstance(definition, (ast.FunctionDef, ast.AsyncFunctionDef)) or definition.name != name:
        return None
    args = definition.args
    positional = [arg.arg for arg in (*args.posonlyargs, *args.args) if arg.arg != "self"]
    named = [*positional, "self", *(arg.arg for arg in (*args.kwonlyargs, args.vararg, args.kwarg) if arg is not None)]
    rest, keywords = (arg.arg if arg is not None else None for arg in (args.vararg, args.kwarg))
    return Parameters(positional, set(named), rest, keywords)


def about_unasked(stack: str, name: str, file: str = "", line: int = 0) -> Args:
    """The arguments of a compile of which no more is known than whose it is."""
    short = name.rpartition(".")[2] or name
    return {
        "part": "forward",
        "function": short,
        "origin": "user",
        "key": f"{stack}:{file}:{name}",
        "identity": f"{file}:{name}",
        "location": location(file, line, short) if file else None,
        "caller": None,
        "inputs": [],
        "context": {},
    }
