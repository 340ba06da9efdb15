"""By which of the program's variables a call was given its arguments, and what these hold once the step is over: what
the next call will be given, as things stand.

Only a loop shows that: it goes on to the call with the variables that it has, but for those that it sets on the way.
"""

from __future__ import annotations

import dis
import weakref
from collections.abc import Iterable, Iterator, Mapping
from types import CodeType, FrameType
from typing import Any

from coldstep._util.slotted import slotted
from coldstep.named_tuple import NamedTuple
from coldstep.places import variables
from coldstep_collectors.bytecode import accesses
from coldstep_collectors.values import own_parts

_LEVELS = 3
_MOST_VALUES = 2_000
_MOST_LOOPS = 2  # around one call, of different functions

_Path = tuple[str, ...]
"""A variable, and the way down from it: ("trainer", ".state", "['w']")."""


@slotted
class Held:
    """The variables that held parts of a call's arguments, of a function with a loop around it; keeps no value."""

    frame: int
    """The id of its frame."""
    code: weakref.ref[CodeType]
    """Its code."""
    call: int
    """Where in that the call stands."""
    paths: dict[str, list[_Path]]
    """The variables, by part."""

    def frame_among(self, callers: Iterable[FrameType]) -> FrameType | None:
        """Its frame, if that still runs."""
        return next((each for each in callers if id(each) == self.frame and each.f_code is self.code()), None)

    def now(self, frame: FrameType, then: Stored | None = None) -> dict[str, list[Any]]:
        """What these variables hold now, or `then`, by part; without those that the loop sets before it calls again."""
        way = _way_to(self.call, frame.f_code, then.at if then is not None else frame.f_lasti)
        if way is None:
            return {}
        scope = variables(frame) | (then.names if then is not None else {})
        values: dict[str, list[Any]] = {}
        for part, paths in self.paths.items():
            if all(map(way.spares, paths)):
                try:
                    values[part] = [_follow(path, scope, frame.f_globals) for path in paths]
                except KeyError:  # a variable that is gone
                    continue
        return values


class Stored(NamedTuple):
    """Where the result of a call goes."""

    names: dict[str, Any]
    """The variables, and what they will hold."""
    at: int
    """Where in the code they do."""


def stored(frame: FrameType, result: Any) -> Stored | None:
    """Where the result goes of the call that a frame is in; None where it goes elsewhere than into variables."""
    waiting, names = [result], dict[str, Any]()
    for step in dis.get_instructions(frame.f_code):
        if step.offset <= frame.f_lasti:
            continue
        kinds = [each.verb for each in accesses(step)]
        if step.opname == "UNPACK_SEQUENCE" and isinstance(whole := waiting.pop(), tuple) and len(whole) == step.arg:
            waiting += reversed(whole)
        elif step.opname == "POP_TOP":
            waiting.pop()
        elif kinds and set(kinds[: len(waiting)]) == {"STORE"}:
            names |= {each.name: waiting.pop() for each in list(accesses(step))[: len(waiting)]}
        else:
            return None
        if not waiting:
            return Stored(names, step.offset)
    return None


def held(parts: Mapping[str, Any], callers: Iterable[FrameType]) -> list[Held]:
    """The variables that hold these parts of a call's arguments, of each function with a loop around the call,
    innermost first; as far as the call names them."""
    wanted: dict[int, list[str]] = {}
    for name, value in parts.items():
        wanted.setdefault(id(value), []).append(name)
    loops: list[Held] = []
    for frame in callers:
        code, at = frame.f_code, frame.f_lasti
        if len(loops) == _MOST_LOOPS or not wanted:
            break
        if _loop(code, at, at) is None:
            continue
        paths: dict[str, list[_Path]] = {}
        for path, value in _reach(_names_in_call(code, at), variables(frame), frame.f_globals):
            for name in wanted.get(id(value), ()):
                paths.setdefault(name, []).append(path)
        loops.append(Held(id(frame), weakref.ref(code), at, paths))
    return loops


# --- values ---------------------------------------------------------------------------------------------------


def _reach(names: Iterable[str], scope: Mapping[str, Any], outside: Mapping[str, Any]) -> Iterator[tuple[_Path, Any]]:
    """The values of these variables, and what those hold that are plain containers and objects."""
    level: list[tuple[_Path, Any]] = [((name,), scope.get(name, outside.get(name))) for name in names]
    count = 0
    for _ in range(_LEVELS + 1):
        below: list[tuple[_Path, Any]] = []
        for path, value in level:
            count += 1
            if count > _MOST_VALUES:
                return
            yield path, value
            if not hasattr(type(value), "shape"):
                below += [((*path, step), part) for step, part in own_parts("", value)]
        level = below


def _follow(path: _Path, scope: Mapping[str, Any], outside: Mapping[str, Any]) -> Any:
    name, *down = path
    value = scope[name] if name in scope else outside[name]
    for step in down:
        value = dict(own_parts("", value))[step]
    return value


# --- code -----------------------------------------------------------------------------------------------------


class _Way(NamedTuple):
    """What a loop sets on its way from where it is to a call."""

    names: set[str]
    attributes: set[str]
    items: bool

    def spares(self, path: _Path) -> bool:
        """Whether a variable is the same at the end of it, as far as the loop's own code shows."""
        name, *down = path
        attributes = {step[1:] for step in down if step.startswith(".")}
        return (
            name not in self.names
            and self.attributes.isdisjoint(attributes)
            and not (self.items and len(down) > len(attributes))
        )


def _way_to(call: int, code: CodeType, at: int) -> _Way | None:
    """What stands between an instruction and a call further on in the same loop; None where there is no such loop."""
    if (loop := _loop(code, at, call)) is None:
        return None
    start, end = loop
    way = _Way(set(), set(), False)
    items = False
    for step in dis.get_instructions(code):
        passed = at < step.offset < call if at < call else at < step.offset <= end or start <= step.offset < call
        if passed:
            way.names.update(each.name for each in accesses(step) if each.verb != "LOAD")
            if step.opname in ("STORE_ATTR", "DELETE_ATTR"):
                way.attributes.add(step.argval)
            items = items or step.opname in ("STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE")
    return way._replace(items=items)


def _loop(code: CodeType, *places: int) -> tuple[int, int] | None:
    """The innermost loop in which all these instructions are: its first and its last one."""
    loops: dict[int, int] = {}
    for step in dis.get_instructions(code):
        if "JUMP_BACKWARD" in step.opname:
            loops[step.argval] = max(step.offset, loops.get(step.argval, 0))
    around = [(start, end) for start, end in loops.items() if all(start <= place <= end for place in places)]
    return min(around, key=lambda loop: loop[1] - loop[0], default=None)


def _names_in_call(code: CodeType, at: int) -> list[str]:
    """The variables that the expression of the call names which is being made; none where Python keeps no positions."""
    steps = list(dis.get_instructions(code))
    # while a call is made, the instruction is the call's, or one of those that follow it unseen
    call = max((step for step in steps if step.offset <= at), key=lambda step: step.offset)
    if (span := _span(call)) is None:
        return []
    within = (
        step for step in steps if (place := _span(step)) is not None and span[0] <= place[0] <= place[1] <= span[1]
    )
    return list(dict.fromkeys(each.name for step in within for each in accesses(step) if each.verb == "LOAD"))


def _span(step: dis.Instruction) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """The first and the last place in the source that an instruction stands for."""
    places = step.positions
    if places is None or None in places:
        return None
    line, last, column, end = places
    return (line, column), (last, end)  # type: ignore[return-value]  # none of them is None
