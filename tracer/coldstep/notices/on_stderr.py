"""What stderr shows while the program runs: a long compile as long as it lasts, and what compiles after `ready()`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from coldstep._util.installed import Offer
from coldstep._util.stderr import say
from coldstep.errors import first_line

if TYPE_CHECKING:
    from coldstep.recording.compiles_so_far import Late
    from coldstep.recording.recorder import UnderWay

_LONG_COMPILE_NS = 3_000_000_000  # a compile that takes longer is shown
_MOST_LATE = 20  # compiles after ready()


class OnStderr:
    """Of one trace. On its drain thread."""

    def __init__(self, note: Callable[[str], None], viewers: Mapping[str, Offer]) -> None:
        self._note = note
        self._viewers = viewers
        self.is_shown = False
        """Whether anything is."""
        self.live: Callable[[UnderWay | None], object] | None = None
        """What shows a long compile, once there was one: its line must go before the program writes."""
        self._late = 0

    def begin_anew(self) -> None:
        """In a fork's child, whose parent has the terminal."""
        self.is_shown, self.live = False, None

    def show(self, under_way: UnderWay | None) -> None:
        """Show a compile that has not ended; None: there is none any more."""
        try:
            if self.live is None and under_way is not None and under_way.elapsed_ns >= _LONG_COMPILE_NS:
                self.live = self._viewers["live"].load()()
            if self.live is not None:
                self.live(under_way)
        except Exception as error:
            self.live = lambda _: None
            self._note(f"the live line ended: {first_line(error)}")

    def show_late(self, late: Late) -> None:
        """Print a line of a compile after `ready()`, of the first twenty."""
        self._late += 1
        if self.is_shown and self._late <= _MOST_LATE:
            say(late.line())
        elif self.is_shown and self._late == _MOST_LATE + 1:
            say("more was compiled after ready(); coldstep report shows all")
