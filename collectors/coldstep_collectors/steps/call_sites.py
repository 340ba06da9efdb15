"""Finds the user's line that calls something again and again, and keeps its observations there."""

from __future__ import annotations

import dis
import os
from collections.abc import Iterator, Sequence
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

from coldstep.candidates import Candidate, Kind
from coldstep.collector import SessionSink
from coldstep.places import Places, location_of

_DEEPEST = 60  # frames that are searched for the user's own
_PASSED_THROUGH = ("contextlib.py", "functools.py")  # of the standard library: decorators, which call for the user
_STANDARD = os.path.dirname(os.__file__)
_JUMPS = {*dis.hasjrel, *dis.hasjabs}
_ENDS = (
    "JUMP_FORWARD",
    "JUMP_BACKWARD",
    "RETURN_VALUE",
    "RETURN_CONST",
    "RAISE_VARARGS",
    "RERAISE",
)  # behind which the next is not reached


class CallSites:
    """The places of a program where calls were seen, for all that sees such calls."""

    def __init__(self, sink: SessionSink) -> None:
        self._sink = sink
        self._places = Places()
        self._users: dict[str, bool] = {}
        self.between_calls = sink.between_calls
        """To be called by whoever sees calls, where the program is between two of them."""
        self.tell = sink.emit
        self.call_ended = sink.call_ended
        """The same, where one ends that may be the first step."""

    def users_frame(self, frame: FrameType | None) -> FrameType | None:
        """The innermost of the user's frames, from `frame` outwards."""
        for _ in range(_DEEPEST):
            if frame is None or self.is_users(frame.f_code.co_filename):
                return frame
            frame = frame.f_back
        return None

    def is_users(self, file: str) -> bool:
        """Whether the user wrote the code in `file`."""
        is_users = self._users.get(file)
        if is_users is None:
            is_users = self._users[file] = self._places.is_users(file)
        return is_users

    def candidate(
        self,
        kind: Kind,
        function: str,
        frame: FrameType | None,
        *,
        name: str = "",
        gradients: bool | None = None,
        instance: int = 0,
    ) -> Candidate | None:
        """The call from `frame`, the user's own, as a candidate; None where there are too many."""
        place = location_of(frame) if frame is not None else None
        looping = any(_loops(each.f_code, each.f_lasti) for each in self._calling(frame))
        made = Candidate(kind, function, place, name, gradients, looping, instance)
        return made if self._sink.add_candidate(made) else None

    def _calling(self, frame: FrameType | None) -> Iterator[FrameType]:
        """The user's frames that call each other, through libraries but not through what serves requests: that is the
        standard library's, and calls the program when somebody else asks it to."""
        while frame is not None:
            file = frame.f_code.co_filename
            if self._places.is_users(file):
                yield frame
            elif _is_standard(file) and os.path.basename(file) not in _PASSED_THROUGH:
                return
            frame = frame.f_back


def _is_standard(file: str) -> bool:
    return file.startswith(_STANDARD) and "-packages" not in file


@lru_cache(maxsize=256)
def _backward(code: CodeType) -> tuple[tuple[int, int], ...]:
    """Where the loops of a code object are: the offset to which each jumps back, and from which."""
    instructions = [*dis.get_instructions(code)]
    reached = _without_exceptions(instructions)
    return tuple(
        (int(each.argval), each.offset)
        for each in instructions
        # NO_INTERRUPT waits, for a coroutine
        if "BACKWARD" in each.opname and "NO_INTERRUPT" not in each.opname and each.offset in reached
    )


def _without_exceptions(instructions: Sequence[dis.Instruction]) -> set[int]:
    """The offsets that a call reaches where nothing raises. Python 3.12 goes back from a handler at the function's end
    into the loop that a `with` stands in: that is no loop around all between."""
    at = {each.offset: number for number, each in enumerate(instructions)}
    reached, left = set[int](), [0]
    while left:
        number = left.pop()
        while number < len(instructions) and instructions[number].offset not in reached:
            each = instructions[number]
            reached.add(each.offset)
            if each.opcode in _JUMPS and (target := at.get(each.argval)) is not None:
                left.append(target)
            if each.opname.startswith(_ENDS):
                break
            number += 1
    return reached


def _loops(code: CodeType, at: int) -> bool:
    """Whether the instruction at that offset stands in a loop."""
    return any(first <= at <= last for first, last in _backward(code))


def name_of(function: Any) -> str:
    """What a function is called, without what it is defined in; of what has no name, that of its type."""
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None)
    return str(name or type(function).__qualname__).rpartition("<locals>.")[2]
