"""What a program does again and again where it marks no steps: recorded call by call, judged when the trace is read."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import Literal

from coldstep._util.slotted import field, slotted_object
from coldstep.events import Args

Kind = Literal["other_tool", "trainer", "optimizer", "call", "setup"]
"""Who marks it as a likely step: another tool's mark in the program, the library that runs the loop, an optimizer that
has stepped, a call of a compiled function. In the order in which they are trusted; the last is none: from a setup on,
such as the making of an optimizer, a first step may have begun."""

_MOST_CALLS = 1_000_000  # of one candidate
_MOST_WAITING = 100_000  # calls of it that are not written yet: of a fork's child that compiles nothing none ever is
_LOOKED_CALLS = 6  # the first ones, whose results are followed
_ABOUT = ("kind", "function", "location", "name", "gradients", "loop", "instance", "tid")


@slotted_object
class Candidate:
    """One kind of call, at one place of the program and on one thread. Whoever sees a call of it adds to `calls`."""

    kind: Kind
    function: str
    """The name of the thing called: "update", "torch.optim.Adam.step", "transformers.Trainer"."""
    location: Args | None
    """The innermost of the user's lines that calls it."""
    name: str = ""
    """The steps' name, where the tool or the trainer gives one: "validation"."""
    gradients: bool | None = None
    """Whether gradients are computed in it; None where that is not known."""
    loop: bool = False
    """Whether the user's line, or one of the user's that calls it, stands in a loop."""
    instance: int = 0
    """Which object is called, where there may be several: numbered as they come."""
    id: str = ""
    """Its name in the trace, given by the session."""
    looked: int = 0
    """How many calls were looked at for results that went into them."""
    fed: dict[str, int] = field(default_factory=dict)
    """Into how many of these went a result of each candidate (by id), its own among them."""
    calls: deque[tuple[int, int] | int] = field(default_factory=lambda: deque(maxlen=_MOST_WAITING))
    """Begin and end of each call that is not written yet, or its end alone where only that was seen."""
    dropped: int = 0
    """How many calls had no room."""
    tid: int = field(default_factory=threading.get_native_id)
    thread: str = field(default_factory=lambda: threading.current_thread().name)
    written: int = 0
    """How many of its calls were taken to be written."""

    @property
    def is_new(self) -> bool:
        """Whether results that go into its calls are still to be followed."""
        return self.looked < _LOOKED_CALLS

    @property
    def was_called_again(self) -> bool:
        """Whether more than one call of it was seen."""
        return self.written + len(self.calls) > 1

    def take(self) -> list[tuple[int, int]]:
        """The calls since this was last asked, begin (0 where it was not seen) and end of each; the first ones are
        kept, for the first steps are among them."""
        waiting = [self.calls.popleft() for _ in range(len(self.calls))]
        taken = [(0, call) if isinstance(call, int) else call for call in waiting]
        kept = taken[: max(0, _MOST_CALLS - self.written)]
        self.written += len(kept)
        self.dropped += len(taken) - len(kept)
        return kept

    @staticmethod
    def told(calls: list[tuple[int, int]], ns: int) -> str:
        """Calls in one short text, counted from `ns`, which is no earlier than their ends: how long before it each
        ended, and after a colon how long it took, where that is known. "7203:5120 1043:5002 20"."""
        return " ".join(f"{ns - end}:{end - begin}" if begin else str(ns - end) for begin, end in calls)

    def about(self) -> Args:
        """What a trace holds of it beside its calls."""
        return {name: getattr(self, name) for name in _ABOUT}


def read(text: str, ns: int) -> Iterator[tuple[int, int]]:
    """The calls in a text of `Candidate.told`; a call of which only the end is known begins and ends there.

    Raises ValueError for anything else.
    """
    for word in text.split():
        before, _, took = word.partition(":")
        end = ns - int(before)
        yield end - int(took or 0), end
