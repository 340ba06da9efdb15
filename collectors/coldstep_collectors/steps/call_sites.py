"""Finds the user's line that calls something again and again, and keeps its observations there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import FrameType
from typing import Any

from coldstep.candidates import Candidate, Kind
from coldstep.collector import SessionSink
from coldstep.places import Places, frames, location_of
from coldstep_collectors.bytecode import loops

_DEEPEST = 60  # frames that are searched for the user's own
_PASSED_THROUGH = ("contextlib.py", "functools.py")  # of the standard library: decorators, which call for the user
_STANDARD = os.path.dirname(os.__file__)


class CallSites:
    """The places of a program where calls were seen, for all that sees such calls."""

    def __init__(self, sink: SessionSink) -> None:
        self._sink = sink
        self._places = Places()
        self._users: dict[str, bool] = {}
        self.awake = sink.awake
        """To be asked first in each hook."""
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
        if (is_users := self._users.get(file)) is None:
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
        looping = any(loops(each.f_code, each.f_lasti) for each in self._calling(frame))
        made = Candidate(kind, function, place, name, gradients, looping, instance)
        return made if self._sink.add_candidate(made) else None

    def _calling(self, frame: FrameType | None) -> Iterator[FrameType]:
        """The user's frames that call each other, through libraries but not through what serves requests: that is the
        standard library's, and calls the program when somebody else asks it to."""
        for each in frames(frame):
            file = each.f_code.co_filename
            if self._places.is_users(file):
                yield each
            elif _is_standard(file) and os.path.basename(file) not in _PASSED_THROUGH:
                return


def _is_standard(file: str) -> bool:
    return file.startswith(_STANDARD) and "-packages" not in file


def class_of(optimizer: Any, where: str, package: str) -> str:
    """An optimizer's class, by the name that people import it by: of `package`, where that has it in modules that begin
    so."""
    kind = type(optimizer)
    return f"{package if kind.__module__.startswith(where) else kind.__module__}.{kind.__qualname__}"
