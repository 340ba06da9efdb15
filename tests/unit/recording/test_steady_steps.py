"""The packets of steps that are patched are those that would have been written in the ordinary way, byte for byte."""

from __future__ import annotations

import os
import random
import zlib
from pathlib import Path

import pytest

import coldstep
from coldstep.clock import Snapshot
from coldstep.events import Begin, CollectorState, End, Event, Note, StepBegin, StepEnd
from coldstep.pftrace.layout import FILE_SCHEMA
from coldstep.recording.buffer import Thread
from coldstep.recording.recorder import Recorder

HOME, OTHER = Thread(4242, "MainThread"), Thread(77, "loader")
START = 1_000_000_000_000
Taken = list[tuple[int, Event, Thread]]


def program(seed: int) -> Taken:
    """What the drain takes of a loop, with what may come between."""
    chance, ns, taken = random.Random(seed), START + 5, []
    ordinals = {"step": 0, "val": 0}

    def later() -> int:
        nonlocal ns
        ns += chance.choice((0, 1, 700, 300_000_000)) if chance.random() < 0.2 else chance.randrange(1, 90_000)
        return ns

    def add(event: Event, thread: Thread = HOME) -> None:
        taken.append((event.ns, event, thread))

    def slice_(name: str, track: str, phase: str | None, thread: Thread = HOME) -> tuple[Begin, End]:
        begin = Begin(later(), name, track, phase)
        return begin, End(later(), begin)

    for turn in range(300):
        if chance.random() < 0.05:
            add(Note(later(), f"note {turn}"), chance.choice((HOME, OTHER)))
        if chance.random() < 0.05:
            opened, ended = slice_("loading", "annotations", None)
            add(opened)
        else:
            ended = None
        if chance.random() < 0.02:
            blind = ["compiles"] if chance.random() < 0.5 else []
            add(CollectorState(later(), "jax", "partial" if blind else "attached", "1", [], blind))
        name = "val" if turn % 40 > 35 else "step"
        thread = OTHER if chance.random() < 0.03 else HOME
        begin = StepBegin(later(), name, ordinals[name])
        ordinals[name] += 1
        add(begin, thread)
        for _ in range(chance.choice((0, 0, 1, 1, 1, 2))):
            first, last = slice_("wait", "execute", "execute")
            add(first, thread)
            if chance.random() < 0.05:
                add(Note(later(), f"inside {turn}"))
                last.ns = later()
            add(last, thread)
        add(StepEnd(later(), begin, chance.random() < 0.9, int(chance.random() < 0.1)), thread)
        if ended is not None:
            ended.ns = later()
            add(ended)
    return taken


def written(path: Path, taken: Taken, monkeypatch: pytest.MonkeyPatch, *, plainly: bool) -> tuple[bytes, int]:
    """The packets of the file, and how many steps were patched."""
    monkeypatch.setattr(os, "urandom", bytes)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    clock = Snapshot(START, START, START, 1)
    recorder = Recorder(fd, HOME, None, clock, {"schema": FILE_SCHEMA, "tid": HOME.tid})
    at = patched = 0
    while at < len(taken):
        if isinstance(event := taken[at][1], StepBegin) and event.n % 20 == 0:
            recorder.flush()
        count = 0 if plainly else recorder.plain_step(taken, at)
        patched += bool(count)
        if not count:
            recorder.handle(*taken[at][1:])
        at += count or 1
    recorder.finish(taken[-1][0] + 10, {"ended": "ok"}, clock)
    recorder.flush()
    os.close(fd)
    content, at, blocks = path.read_bytes(), 0, b""
    while (at := content.find(b"\x78\x01", at)) >= 0:
        inflate = zlib.decompressobj()
        blocks += inflate.decompress(content[at:])
        at = len(content) - len(inflate.unused_data)
    return blocks, patched


@pytest.mark.parametrize("seed", range(8))
def test_a_patched_step_is_written_as_it_would_be(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, none = written(tmp_path / "a.pftrace", program(seed), monkeypatch, plainly=True)
    patched, many = written(tmp_path / "b.pftrace", program(seed), monkeypatch, plainly=False)
    assert not none
    assert many > 100
    assert plain == patched
    assert len(coldstep.load(tmp_path / "b.pftrace").intervals) > 500
