"""What a process's file consists of: slices, and steps."""

from __future__ import annotations

from coldstep._util.slotted import slotted
from coldstep.events import Args
from coldstep.model import InferredBy
from coldstep.pftrace import layout
from coldstep.pftrace.layout import Track


@slotted
class Slice:
    """A slice of some track; one that a cut has left open ends where the file does."""

    track: Track
    name: str
    category: str
    start: int
    end: int
    args: Args

    @property
    def is_phase(self) -> bool:
        """Whether its category is a phase, whose time it is."""
        return bool(self.category) and self.category not in (layout.COMPILE, layout.STEP, layout.TRACE)


@slotted
class StepRow:
    """A step: its slice, or, in a cut file, only the instant at which it began."""

    name: str
    n: int
    start: int
    end: int
    args: Args
    by: InferredBy | None = None
    """What it was inferred from, where nothing in the program marks it."""

    @property
    def is_inferred(self) -> bool:
        """Whether nothing in the program marks it."""
        return self.args.get("source") == "inferred"
