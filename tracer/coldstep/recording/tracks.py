"""The tracks of a trace file: each is made as the first thing is drawn on it."""

from __future__ import annotations

import os
from collections.abc import Callable

from coldstep.events import Counter, Work
from coldstep.pftrace import layout
from coldstep.pftrace.layout import Track
from coldstep.pftrace.writer import Writer
from coldstep.recording.buffer import Thread
from coldstep.vocabulary import Vocabulary

_GROUP = "counters", 0


class Tracks:
    """Of one process, below its root. `undeclared(kind, …)` is called for a track that no vocabulary has: what a
    collector did, and what follows."""

    def __init__(
        self, writer: Writer, vocabulary: Vocabulary, home: Thread, rank: int | None, undeclared: Callable[..., None]
    ) -> None:
        self._writer, self._vocabulary = writer, vocabulary
        self._home, self._undeclared = home, undeclared
        # uuids and flow ids of several processes meet in a merged file: each counts from a random place
        self._ids = int.from_bytes(os.urandom(7), "little") << 8
        self._known: dict[tuple[str, int | str], int] = {}
        self._counters = 0
        self._lanes: list[int] = []  # until when each track of worker processes is taken
        self.root = self.new_id()
        """What all others lie below."""
        writer.track(self.root, layout.root_name(rank), ordered=True)

    def new_id(self) -> int:
        """A uuid, or the id of a flow."""
        self._ids += 1
        return self._ids

    def of(self, kind: str, thread: Thread) -> int:
        """A thread's track of that kind."""
        if kind not in self._vocabulary.tracks:
            self._undeclared(kind, "drew on a track", "see Annotations")
            kind = "annotations"
        key = kind, thread.tid
        if (known := self._known.get(key)) is not None:
            return known
        of = f": {thread.name}" if thread.tid != self._home.tid else ""
        return self._make(key, Track(kind, thread.tid, thread.name), of=of, below=bool(of))

    def of_held_phases(self) -> int:
        """A second track of phases: on one, the late end of a slice would end what begins at that moment."""
        key, about = ("held phases", 0), Track("phases", self._home.tid, self._home.name)
        return self._known.get(key) or self._make(key, about, below=True)

    def of_worker(self, event: Work, end: int) -> int:
        """A track on which nothing else is drawn while that worker process works."""
        lane = next((n for n, taken in enumerate(self._lanes) if taken <= event.ns), len(self._lanes))
        if lane == len(self._lanes):
            self._lanes.append(0)
        self._lanes[lane] = end
        # tracks of one name under one parent are the lanes of one row
        return self._known.get(("workers", lane)) or self._make(("workers", lane), Track("workers", lane, ""))

    def of_counter(self, event: Counter) -> int:
        """The track of a counter, in the group of all."""
        key = "counters", event.name
        if key not in self._known:
            if not self._counters:
                self._make(_GROUP)
            self._counters += 1
            uuid = self._known[key] = self.new_id()
            about, group = Track("counters", 0, event.name).about(), self._known[_GROUP]
            self._writer.track(uuid, event.name, parent=group, rank=self._counters, about=about, unit=event.unit)
        return self._known[key]

    def _make(
        self, key: tuple[str, int | str], about: Track | None = None, *, of: str = "", below: bool = False
    ) -> int:
        uuid = self._known[key] = self.new_id()
        kind = about.kind if about is not None else key[0]
        name, rank = f"{self._vocabulary.tracks[kind].words}{of}", 2 * self._vocabulary.rank(kind) + below
        text = about.about() if about is not None else ""
        self._writer.track(uuid, name, parent=self.root, rank=rank, about=text, ordered=about is None)
        return uuid
