"""Spreads the events of a log over threads: of two compiles that overlap, neither within the other, one is another
thread's, or another process's that the log does not name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from coldstep.events import Begin, End, Event
from coldstep.recording.buffer import Thread

_NEVER = 1 << 63


def on_lanes(events: Iterable[Event], home: Thread) -> Iterator[tuple[Event, Thread]]:
    """Each event in its order, and the thread that it is of: `home`, where it fits."""
    events = list(events)
    ends = {id(event.begin): event.ns for event in events if isinstance(event, End)}
    lanes: list[list[Begin]] = [[]]
    lane_of: dict[int, int] = {}
    for event in events:
        lane = 0
        if isinstance(event, Begin):
            end = ends.get(id(event), _NEVER)
            order = [*range(len(lanes))]
            if event.compile is None:  # a phase, of the compile that began last
                order.sort(key=lambda at: -lanes[at][-1].ns if lanes[at] else 1)
            fits = (at for at in order if not lanes[at] or ends.get(id(lanes[at][-1]), _NEVER) >= end)
            lane = next(fits, len(lanes))
            if lane == len(lanes):
                lanes.append([])
            lanes[lane].append(event)
            lane_of[id(event)] = lane
        elif isinstance(event, End):
            lane = lane_of.get(id(event.begin), 0)
            lanes[lane] = [begin for begin in lanes[lane] if begin is not event.begin]
        yield event, home if lane == 0 else Thread(home.tid + lane, f"{home.name} {lane + 1}")
