"""Numba's types as coldstep writes abstract values: `f64[:,:] order(C)`, so that what differs has a name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

_LONGEST = 200
_OPTIONS = ("nopython", "forceobj", "parallel", "fastmath", "boundscheck", "error_model", "nogil", "inline")


def describe(
    dispatcher: Any, names: Sequence[str], types: Sequence[Any]
) -> tuple[list[dict[str, str]], dict[str, str]]:
    """A compile's inputs, and the rest of what it is specialised on: trees, values, the decorator's options."""
    inputs: list[dict[str, str]] = []
    context: dict[str, str] = {}
    given = []
    for position, type_ in enumerate(types):
        name = names[position] if position < len(names) else f"args[{position - len(names)}]"
        if type(type_).__name__ == "Omitted":
            continue
        given.append(name)
        for path, text in _leaves(name, type_, context):
            inputs.append({"argument": path, "type": text})
    context["call"] = ", ".join(given)
    for option in _OPTIONS:
        if value := dispatcher.targetoptions.get(option):
            context[f"cause numba_option {option}"] = str(value)[:_LONGEST]
    return inputs, context


def _leaves(path: str, type_: Any, context: dict[str, str]) -> Iterator[tuple[str, str]]:
    kind = type(type_).__name__
    if kind in ("UniTuple", "Tuple", "NamedTuple", "NamedUniTuple"):
        context[f"tree {path}"] = f"tuple of {len(type_)}"
        for position, inner in enumerate(type_):
            yield from _leaves(f"{path}[{position}]", inner, context)
    elif hasattr(type_, "literal_value"):
        context[f"static {path}"] = repr(type_.literal_value)[:_LONGEST]
    elif hasattr(type_, "ndim") and hasattr(type_, "layout"):
        order = (
            f" order({type_.layout})" + ("" if type_.mutable else " readonly") + ("" if type_.aligned else " unaligned")
        )
        yield path, f"{_dtype(type_.dtype)}[{','.join(':' * type_.ndim)}]{order}"
    elif kind == "NoneType":
        yield path, "None"
    elif kind in ("Float", "Integer", "Boolean", "Complex"):
        yield path, f"{_dtype(type_)}[]"
    else:  # a string, a dict, a function: Numba's own word says it all
        context[f"cause type {path}"] = str(type_)[:_LONGEST]
        yield path, "object"


def _dtype(type_: Any) -> str:
    kind = type(type_).__name__
    if kind == "Integer":
        return f"{'i' if type_.signed else 'u'}{type_.bitwidth}"
    if kind in ("Float", "Complex"):
        return f"{'f' if kind == 'Float' else 'c'}{type_.bitwidth}"
    return "bool" if kind == "Boolean" else "".join(c if c.isalnum() else "_" for c in str(type_).lower())
