"""Which calls of a function will compile, before they do: the calls, the answer, and the way to who knows it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from coldstep._util.slotted import slotted
from coldstep.ahead.forecast_rows import Call, Foretold, ForetoldCompile, UnknownCall
from coldstep.ahead.plugins import reach

if TYPE_CHECKING:
    from coldstep.ahead.plans import Curve
    from coldstep.ahead.prices import Prices
    from coldstep.model import Trace

SCHEMA = "coldstep-forecast/1"


@slotted
class Forecast:
    """Which of the calls will compile, why, and what to do about it."""

    function: str
    """The function's name."""
    stack: str
    """The framework that compiles it."""
    calls: int
    """How many there are."""
    compiles: list[ForetoldCompile]
    """The calls that will compile, in their order."""
    unknown: list[UnknownCall]
    """The calls that cannot be judged."""
    limit_at: int | None
    """The first call that the framework's limit of variants leaves uncompiled; None where none is."""
    curves: list[Curve]
    """For each size that varies, what can be done about it."""
    notes: list[str]
    """The assumptions."""

    def to_json(self) -> dict[str, Any]:
        """The document of schema coldstep-forecast/1."""
        about = {"schema": SCHEMA, "function": self.function, "stack": self.stack, "calls": self.calls}
        compiles = [{name: getattr(row, name) for name in _COMPILE} for row in self.compiles]
        unknown = [{"call": row.call, "why": row.why} for row in self.unknown]
        plans = [plan for curve in self.curves for plan in curve.to_json()]
        answer = {"compiles": compiles, "unknown": unknown, "limit_at": self.limit_at, "plans": plans}
        return about | answer | {"work": [curve.work() for curve in self.curves], "notes": self.notes}


_FORETOLD = ("function", "stack", "calls", "compiles", "unknown", "limit_at")
_COMPILE = ("call", "cause", "argument", "before", "after", "cost_ns")


def forecast(
    function: Callable[..., Any],
    calls: Iterable[Any] | Callable[[], Iterable[Any]],
    *,
    feed: Mapping[str, str] | None = None,
    trace: Trace | str | os.PathLike[str] | None = None,
) -> Forecast:
    """Forecast which of these calls of a function will compile, and why. Nothing compiles, and nothing runs on a
    device.

    function  the function: compiled by jax.jit, torch.compile or tf.function, or a plain one that will be
    calls     an iterable of calls, or a function that returns one. A tuple holds the arguments by position, a
              `coldstep.call` holds its own, and anything else is one argument
    feed      which results go into the next call: {"0": "state"}, by the path in the result and the argument's name;
              {"": "state"} is the whole result
    trace     an earlier trace of the function, or its path, to show how long compiles and steps took; where its steps
              made these very calls, also what each size takes

    A call that coldstep cannot judge is in `unknown`, with the reason. Raises ValueError if the function and its
    arguments do not reveal the framework, or if `feed` names something that does not exist; TraceError if `trace`
    cannot be read; RuntimeError inside a trace.
    """
    foretold: Foretold = reach("forecast")(function, each_call(calls), dict(feed or {}))
    known = _prices(foretold, trace) if trace is not None else None
    if known is not None:
        for row in foretold.compiles:
            row.cost_ns = known.first_ns if row.cause == "first" else known.again_ns
    answer = {name: getattr(foretold, name) for name in _FORETOLD}
    notes = foretold.notes + (known.notes if known is not None else [])
    return Forecast(**answer, curves=_curves(foretold, known), notes=notes)


def each_call(calls: Iterable[Any] | Callable[[], Iterable[Any]]) -> Iterator[Call]:
    """The calls, in their one form."""
    for item in calls() if callable(calls) else calls:
        if isinstance(item, Call):
            yield item
        else:
            yield Call(item if type(item) is tuple else (item,))


# what these import, not every forecast needs, and the first one in a process would wait for


def _curves(foretold: Foretold, known: Prices | None) -> list[Curve]:
    if not any(row.shapes != foretold.sizes[0].shapes for row in foretold.sizes):
        return []
    from coldstep.ahead.plans import curves
    from coldstep.ahead.prices import UNKNOWN

    return curves(foretold, known or UNKNOWN)


def _prices(foretold: Foretold, trace: Trace | str | os.PathLike[str]) -> Prices:
    from coldstep.ahead.measured import steps_of
    from coldstep.ahead.prices import prices
    from coldstep.ahead.work import NotMeasured
    from coldstep.loading import load

    loaded = load(trace) if isinstance(trace, (str, os.PathLike)) else trace
    known = prices(loaded, foretold.stack, foretold.function)
    try:
        known.steps = steps_of(loaded, foretold)
    except NotMeasured as error:
        known.no_steps = str(error)
    return known
