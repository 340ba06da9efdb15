"""Foretells what TensorFlow traces: its own rule of types, asked call by call, with a cache in which nothing is traced.

A graph takes every call whose type is a subtype of its own; with `reduce_retracing` a further shape leaves dimensions
open; a Python value is compiled in. XLA compiles each graph for every set of sizes that it gets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from types import FunctionType, MethodType
from typing import Any

from coldstep.ahead.forecast_rows import Call, Foretold, ForetoldCompile, Sizes
from coldstep.errors import first_line, our_errors
from coldstep.events import Args
from coldstep_collectors.log_definitions import about_unasked
from coldstep_collectors.tensorflow._private import types as private
from coldstep_collectors.tensorflow.describe import Describer
from coldstep_collectors.values import attribute, closure, globals_read, held

_INNER = "a function inside is compiled by XLA, perhaps for these sizes anew"
_BEFORE = "XLA may have compiled it for these sizes before"
_HELD = "it holds a variable whose sizes may change, and XLA compiles for each"
_MOST_REACHED = 200


def foretell(function: Callable[..., Any], calls: Iterable[Call], feed: Mapping[str, str]) -> Foretold:
    """Which of these calls TensorFlow will trace, or XLA compile."""
    if feed:
        raise ValueError("feed is for JAX: what a tf.function returns is not known before it is traced")
    forecaster = _Forecaster(import_module("tensorflow"), function)
    for call in calls:
        forecaster.take(call)
    return forecaster.told()


class _Forecaster:
    """Takes the calls one by one."""

    def __init__(self, tensorflow: Any, function: Any) -> None:
        self._tensorflow = tensorflow
        python = getattr(function, "python_function", function)
        self._told = Foretold("tensorflow", getattr(python, "__name__", type(python).__name__))
        if not private.is_function(function):
            self._told.notes.append("the function is taken as if it were under tf.function, without options")
            function = tensorflow.function(function)
        self._why = private.missing()
        self._describer = Describer(tensorflow)
        if self._why:
            return
        self._variants = private.Variants(function)
        self._sizes: dict[int, list[dict[str, tuple[int, ...]]]] = {}
        """By graph, the sizes that it was called with."""
        reached = list(_reached(python))
        self._has_inner = any(map(private.is_jitted, reached))
        held = (each for each in reached if isinstance(each, tensorflow.Variable))
        self._holds_any_size = not all(each.shape.is_fully_defined() for each in held)
        self._traced: list[ForetoldCompile] = []
        self._made: list[Args] = []
        """What is known of these."""

    def take(self, call: Call) -> None:
        """Judge the next call."""
        number = self._told.next_call()
        if self._why:
            self._told.leave_open(number, f"this version of TensorFlow hides {self._why}")
            return
        try:
            asked = self._variants.ask(call.args, call.kwargs)
        except our_errors() as error:
            self._told.leave_open(number, f"the call itself would fail: {first_line(error)}")
            return
        shapes = self._shapes(asked)
        about = self._about(asked.type, asked.context)
        rest = tuple((row["argument"], str(row["type"]).partition("[")[0]) for row in about["inputs"])
        self._told.sizes.append(Sizes(shapes, (rest, tuple(sorted(about["context"].items())))))
        seen = self._sizes.setdefault(asked.graph, [])
        if asked.is_new:
            self._compiles(number, self._about(asked.made, asked.context))
        elif shapes not in seen and (self._variants.jitted or self._has_inner):
            if not self._variants.jitted or self._variants.has_traced:
                self._told.leave_open(number, _BEFORE if self._variants.jitted else _INNER)
            else:
                self._told.compiles.append(_of_sizes(number, about, seen[-1], shapes))
        elif self._holds_any_size and (self._variants.jitted or self._has_inner):
            self._told.leave_open(number, _HELD)
        if shapes not in seen:
            seen.append(shapes)

    def _shapes(self, asked: private.Asked) -> dict[str, tuple[int, ...]]:
        """The sizes of the call's tensors, by path, where its type leaves them open, too."""
        paths = self._describer.tensors(asked.type, self._variants.rest) or []
        leaves = self._tensorflow.nest.flatten((asked.args, asked.kwargs))
        tensors = [leaf for leaf in leaves if self._tensorflow.is_tensor(leaf)]
        if len(paths) != len(tensors):
            known = self._describer.shapes(asked.type, self._variants.rest)
            return {path: tuple(size or 0 for size in dims) for path, dims in known}
        return {path: tuple(tensor.shape) for path, tensor in zip(paths, tensors, strict=True)}

    def told(self) -> Foretold:
        """The whole forecast, with the causes that a report gives."""
        if len(self._made) > 1:
            from coldstep.analysis.recompiles.causes import explain_in_turn  # here: one variant has no need of it

            explain_in_turn("tensorflow", self._made, self._traced)
        if self._told.compiles and not self._why and self._variants.has_traced:
            self._told.compiles[0].cause = "unknown"  # the variants before are none of these
        return self._told

    def _compiles(self, number: int, about: Args) -> None:
        row = ForetoldCompile(number)
        self._told.compiles.append(row)
        self._traced.append(row)
        self._made.append(about)

    def _about(self, type_: Any, context: Any) -> Args:
        inputs, known = self._describer.signature(type_, context, self._variants.rest)
        return about_unasked("tensorflow", self._told.function) | {"inputs": inputs, "context": known}


def _of_sizes(
    number: int, about: Args, before: Mapping[str, tuple[int, ...]], after: Mapping[str, tuple[int, ...]]
) -> ForetoldCompile:
    """XLA's compile of a graph that was there, for other sizes."""
    argument = next(path for path in after if before.get(path) != after[path])
    kind = next(str(row["type"]).partition("[")[0] for row in about["inputs"] if row["argument"] == argument)
    was, now = (f"{kind}[{','.join(map(str, sizes.get(argument, ())))}]" for sizes in (before, after))
    return ForetoldCompile(number, "shape", argument, was, now)


def _reached(function: Any) -> Iterator[Any]:
    """What a function can call by a name that it reads: functions, and what the objects hold that it reads."""
    queue, seen = [function], set[int]()
    while queue and len(seen) < _MOST_REACHED:
        each = queue.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        if isinstance(inner := attribute(each, "python_function", each), MethodType):
            queue.append(inner.__self__)
            inner = inner.__func__
        if isinstance(inner, FunctionType):
            queue += [value for _, value in closure(inner)]
            queue += [inner.__globals__[name] for name in globals_read(inner.__code__) if name in inner.__globals__]
        elif type(each).__module__ == function.__module__:
            queue += [*held(each).values(), *vars(type(each)).values()]
