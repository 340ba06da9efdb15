"""Compiles of the running process, written into a trace of their own, in memory, and read: its words are those of the
report to come."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import count
from typing import Any

from coldstep.clock import Snapshot
from coldstep.events import Args, Begin, End, Ready
from coldstep.loading import explained, load
from coldstep.model import Compile, Recompile, Trace
from coldstep.recording.buffer import Thread
from coldstep.recording.compiles_so_far import Retold
from coldstep.recording.recorder import Recorder
from coldstep.run_row import RunRow


def explained_by(compiled: Compile, why: Recompile) -> dict[str, Any]:
    """The fields that the notice of a compile takes from its row and from that of its recompile."""
    of_compile = {name: getattr(compiled, name) for name in ("function", "location", "caller")}
    of_recompile = ("cause", "argument", "before", "after", "evidence", "advice")
    return of_compile | {name: getattr(why, name) for name in of_recompile}


def where_in(notice: Any) -> str:
    """How a line on a compile begins: "train.py:12: step"."""
    place = notice.caller or notice.location
    return f"{place.file}:{place.line}: {notice.function}" if place else str(notice.function)


def read_back(variants: Sequence[Retold], root: str, words: Args, ready: tuple[int, Ready] | None = None) -> Trace:
    """The trace of these compiles, and why each was made again; `ready`: before which of them the program was
    declared warmed up, and how, for the rows derived from that."""
    home = Thread(1, "")
    fd = os.memfd_create("coldstep")
    try:
        row = RunRow(root, home.tid, vocabulary=words)
        recorder = Recorder(fd, home, None, Snapshot(1, 1, 1, 0), row.at_begin())
        ns = count(2)
        for number, variant in enumerate(variants):
            if ready is not None and number == ready[0]:
                recorder.handle(Ready(next(ns), ready[1].name, ready[1].stack), home)
            begin = Begin(next(ns), "", variant.track, None, f"c{number}", variant.args)
            recorder.handle(begin, home)
            for name in variant.phases:
                phase = Begin(next(ns), name, variant.track, name)
                recorder.handle(phase, home)
                recorder.handle(End(next(ns), phase), home)
            recorder.handle(End(next(ns), begin), home)
        row.ended = "ok"
        recorder.finish(next(ns), row.at_end())
        recorder.flush()
        path = f"/proc/self/fd/{fd}"
        return explained(path) if ready is None else load(path)
    finally:
        os.close(fd)
