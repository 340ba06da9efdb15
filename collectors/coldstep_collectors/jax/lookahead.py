"""Looks ahead in JAX when the first step is over: arguments in whose place there are values of another type now.

A result that is fed back is one: a weak type that became a strong one, an array that is committed now.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import FrameType
from typing import Any

from coldstep._util.slotted import slotted
from coldstep.collector import AheadSink, Foreseen
from coldstep.errors import our_errors
from coldstep.events import Args
from coldstep.places import frames
from coldstep_collectors.jax._private.hooks import STATIC, Dispatch
from coldstep_collectors.jax.caller_variables import Held, Stored, held, stored
from coldstep_collectors.jax.describe import Describer


@slotted
class _First:
    """A compile of the first step, and where its arguments came from."""

    id: str
    identity: str
    inputs: list[Args]
    loops: list[Held]


class Prospects:
    """What the collector `jax` knows of the step to come."""

    def __init__(self, sink: AheadSink, describer: Describer) -> None:
        self._sink = sink
        self._describer = describer
        self._known: set[int] = set()  # hashes: there may be many, of many arguments
        self._first: dict[str, _First] = {}  # the latest of each identity
        sink.on_first_mark(self._first.clear)

    def compiled(self, compile: str, about: Args, dispatch: Dispatch, callers: Iterable[FrameType]) -> None:
        """A compile begins, of a call from the innermost of the user's frames."""
        identity, inputs = about["identity"], about["inputs"]
        if (
            about["origin"] != "user"
            or not identity
            or inputs is None
            or not dispatch.compiles
            or dispatch.frame is None
        ):
            return
        self._known.add(_hash(identity, inputs))
        if self._sink.in_first_step():
            self._first[identity] = _First(compile, identity, inputs, held(_parts(dispatch), callers))

    def ahead(self, frame: FrameType, result: Any = None) -> list[Foreseen]:
        """The functions that the variables in `frame` and its callers, as they are now, compile again; where `frame` is
        in a call that is about to return `result`, as they are then."""
        first = list(self._first.values())
        self._first.clear()
        callers = list(frames(frame))
        then = stored(frame, result) if first and result is not None else None
        if result is not None and then is None:
            return []
        return [foreseen for each in first if (foreseen := self._next(each, callers, then)) is not None]

    def _next(self, first: _First, callers: list[FrameType], then: Stored | None) -> Foreseen | None:
        for loop in first.loops:
            if (running := loop.frame_among(callers)) is not None:
                if then is not None and running is not callers[0]:
                    return None  # what `frame` does until it returns to the loop is not known
                inputs, context = first.inputs, dict[str, str]()
                for part, values in loop.now(running, then).items():
                    arguments = [self._describer.argument(part, value) for value in values]
                    if arguments[0] is not None and all(each == arguments[0] for each in arguments):
                        inputs = _replaced(inputs, part, arguments[0][0])
                        context |= arguments[0][1]
                is_new = _hash(first.identity, inputs) not in self._known
                return Foreseen(first.id, {"inputs": inputs, "context": context}) if is_new else None
        return None


def _parts(dispatch: Dispatch) -> dict[str, Any]:
    """The arguments of a call, and what stands in those that are plain containers, by the paths of their leaves."""
    parts: dict[str, Any] = {}
    try:
        given = dispatch.arguments()
    except our_errors():  # a call that does not go with the signature; JAX itself will say so
        return {}
    for name, value, _ in given:
        if value is STATIC:
            continue
        parts[name] = value
        if type(value) in (list, tuple):
            parts |= {f"{name}[{at}]": part for at, part in enumerate(value)}
        elif type(value) is dict:
            parts |= {f"{name}[{key!r}]": part for key, part in value.items()}
    return parts


def _replaced(inputs: list[Args], part: str, now: list[Args]) -> list[Args]:
    """The inputs with those of a part as they are now."""
    inside = [at for at, row in enumerate(inputs) if _is_within(str(row["argument"]), part)]
    if not inside:
        return inputs
    return [*inputs[: inside[0]], *now, *inputs[inside[-1] + 1 :]]


def _is_within(path: str, part: str) -> bool:
    return path == part or path.startswith((f"{part}[", f"{part}."))


def _hash(identity: str, inputs: Iterable[Args]) -> int:
    return hash((identity, *((row["argument"], row["type"]) for row in inputs)))
