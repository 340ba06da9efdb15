"""The contents of a trace's packets: its tracks, and the events on them."""

from __future__ import annotations

from coldstep._util.slotted import slotted
from coldstep.events import Args


@slotted
class TrackRow:
    """A track's description; comes before the first event on it."""

    uuid: int
    name: str
    parent: int | None
    about: str


@slotted
class EventRow:
    """One event of a track: `kind` is proto.SLICE_BEGIN, SLICE_END, INSTANT or COUNTER; an end has no name, and a
    counter's only argument is its value."""

    kind: int
    ns: int
    track: int
    name: str
    category: str
    args: Args
    flows: tuple[int, ...] = ()
