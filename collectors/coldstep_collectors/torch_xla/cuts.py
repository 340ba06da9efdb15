"""The places of a program that cut lazy graphs."""

from __future__ import annotations

from types import FrameType

from coldstep._util.slotted import slotted
from coldstep.events import Args
from coldstep.places import Places, frames, location
from coldstep_collectors.torch_xla._private.hooks import Syncing, code_of

QUIET_SYNCS = 3  # in a row that compile nothing: from then on tensors are not looked up between them
_WHAT = {
    "sync": "sync",
    "compile": "step",
    "entry": "sync before a step",
    "inputs": "work pending before the torch.compile call",
    "openxla": "graph of the torch.compile call",
    "read": "host read",
}


@slotted
class Place:
    """A place that cuts graphs: a function given to torch_xla.compile, or a line."""

    identity: str
    about: Args
    """Function, key, location, origin."""
    looks: int = QUIET_SYNCS
    """At most this many more of its syncs are looked at beforehand: none once its graph was there already."""
    compiled: Compiled | None = None


@slotted
class Compiled:
    """The last compile at a place: which inputs its graph had, and the names in reach when it was compiled and when its
    step began."""

    inputs: list[Args]
    seen: set[str]
    before: set[str]


class Cuts:
    """All that are known; `whose` separates the user's code from libraries'."""

    def __init__(self, whose: Places) -> None:
        self._whose = whose
        self.known: dict[str, Place] = {}
        self.call = ("<unknown>", 0, "")  # the last call of torch.compile's whose graph was extracted

    def of_sync(self, by: Syncing) -> Place:
        """The function that was given to torch_xla.compile, else the line that syncs."""
        if (code := code_of(by.function)) is not None:
            site = (code.co_filename, code.co_firstlineno, code.co_qualname)
        elif by.kind == "inputs":
            site = self.calling(by.frame)
        else:
            frame = self._outside(by.frame)
            site = (frame.f_code.co_filename, frame.f_lineno or 0, frame.f_code.co_qualname)
        return self.place("function" if code is not None else by.kind, *site)

    def _outside(self, frame: FrameType) -> FrameType:
        """The innermost frame of neither torch_xla nor the standard library: a library may sync for the user."""
        return next((each for each in frames(frame) if not self._whose.is_known(each.f_code.co_filename)), frame)

    def calling(self, frame: FrameType) -> tuple[str, int, str]:
        """The user's line that calls what torch.compile has made; of a backward, in its own thread, its forward's."""
        if (users := self._whose.users_frame(frame)) is not None:
            self.call = (users.f_code.co_filename, users.f_lineno or 0, users.f_code.co_qualname)
        return self.call

    def place(self, kind: str, file: str, line: int, function: str, number: int = 0) -> Place:
        identity = f"{kind} {file}:{line}:{function}:{number}"
        if (place := self.known.get(identity)) is None:
            where = location(file, line, function)
            name = where["function"] if kind == "function" else f"{_WHAT[kind]} at {file.rpartition('/')[2]}:{line}"
            key = f"torch_xla:{where['file']}:{function}"
            about = {"function": name, "origin": "user", "key": key, "location": where}
            place = self.known[identity] = Place(identity, about)
        return place
