"""Sees compiled JAX functions that a transform calls which nobody compiled: Python runs each such call."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from coldstep._util.slotted import slotted_object
from coldstep.clock import now
from coldstep.errors import contained
from coldstep.events import Args, Finding
from coldstep.places import location_of
from coldstep_collectors.jax._private import calls as private
from coldstep_collectors.patch import Undo, undo_all
from coldstep_collectors.steps.call_sites import CallSites
from coldstep_collectors.values import name_of

_LEAST = 8  # calls from one line: fewer are worth no change
_MOST_NS = 50_000_000  # from one to the next: beside a longer one, what Python takes is little
_MOST_PLACES = 1_000


@slotted_object
class _Line:
    """A line of the user's that has such a function called."""

    function: str
    transform: str
    location: Args
    code: CodeType
    """The line's own, which keeps its id."""
    calls: int = 1
    second: int = 0
    """When the second of them ended: what the first one had compiled behind it is over then."""
    last: int = 0


class Transformed:
    """Watches the calls of one program until stopped; `failed` gets an error in that."""

    def __init__(self, sites: CallSites, failed: Callable[[Exception], None]) -> None:
        self._sites = sites
        self._failed = failed
        self._undo: list[Undo] = []
        self._lines: dict[tuple[int, int, str], _Line] = {}

    def attach(self, _: Any) -> list[str]:
        """Watch from now on. A missing hook is one of the steps, too, which names it."""
        self._undo.append(private.after_slow_calls(self._ended, []))
        return []

    def forked(self) -> None:
        """See `Source`."""
        self._lines.clear()

    def end(self) -> None:
        """As the program ends: report the lines that did so again and again."""
        for line in self._lines.values():
            if line.calls >= _LEAST and (line.last - line.second) // (line.calls - 2) <= _MOST_NS:
                around = f"{line.function} is jitted, but {line.transform} around it is not"
                text = f"{around}: each of {line.calls} calls went through Python"
                self._sites.tell(Finding(now(), "fast_path_miss", "note", text, "jax", location=line.location))
        self._lines.clear()

    def stop(self) -> list[str]:
        """Watch no longer; what stays, in words."""
        return undo_all(self._undo)

    def _ended(self, frame: FrameType) -> None:
        with contained(self._failed):
            transforms = private.transforms() if self._sites.awake() else []
            code = getattr(private.given(frame.f_locals.get("fun")), "__code__", None) if transforms else None
            if code is None or not self._sites.is_users(code.co_filename):
                return
            if (users := self._sites.users_frame(frame)) is None:
                return
            key = id(users.f_code), users.f_lasti, code.co_qualname
            if (line := self._lines.get(key)) is not None:
                line.calls, line.last = line.calls + 1, now()
                line.second = line.second or line.last
            elif len(self._lines) < _MOST_PLACES:
                function = name_of(private.given(frame.f_locals["fun"]))
                self._lines[key] = _Line(function, transforms[0], location_of(users), users.f_code)
