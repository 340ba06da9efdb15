"""Of a long run, steps that are alike take a few numbers each; what is said of them is as it would be of each."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import generated_trace
import pytest

import coldstep
from coldstep.candidates import Candidate
from coldstep.clock import Snapshot
from coldstep.events import (
    Args,
    Begin,
    Calls,
    CollectorState,
    Counter,
    End,
    Note,
    Slice,
    StepBegin,
    StepEnd,
    emit_whole,
)
from coldstep.loading import folding
from coldstep.model import Trace
from coldstep.pftrace.layout import FILE_SCHEMA
from coldstep.pftrace.reader import folded, rows
from coldstep.pftrace.repeats import Repeats
from coldstep.recording.buffer import Thread
from coldstep.recording.recorder import Recorder
from coldstep.rows.intervals import Alike, Intervals
from coldstep_viewers.commands.cli import main
from coldstep_viewers.report.headline import headline
from coldstep_viewers.report.html import page
from coldstep_viewers.report.json_rows import text
from coldstep_viewers.report.terminal import render

HOME, OTHER = Thread(4242, "MainThread"), Thread(77, "loader")
START = 1_000_000_000_000
PLACE: Args = {"file": "/p/train.py", "function": "main"}


def both(path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Trace, Trace]:
    """The trace with steps that are alike put together, however few they are, and as a list."""
    monkeypatch.setattr(folding, "FEW_STEPS", 0)
    together = coldstep.load(path)
    monkeypatch.setattr(folding, "FEW_STEPS", 1 << 60)
    apart = coldstep.load(path)
    assert type(apart.intervals) is list
    return together, apart


def told(trace: Trace) -> list[str]:
    return [json.dumps(trace.to_json()), render(trace), render(trace, every=True), *trace.run.notes]


class Run:
    """A made-up run that does what training loops do, at random."""

    def __init__(self, path: Path, seed: int, collectors: tuple[str, ...] = ("jax",)) -> None:
        self.chance = random.Random(seed)
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        about: Args = {"schema": FILE_SCHEMA, "command": ["train.py"], "root": "/p", "tid": HOME.tid, "pid": 1,
                       "rank": None, "before_trace_ns": 5, "collectors": [*collectors]}  # fmt: skip
        self.recorder = Recorder(self.fd, HOME, None, Snapshot(START, START, START, 1), about)
        self.recorder.handle(CollectorState(START + 1, "jax", "attached", "0.10.2", []), HOME)
        self.ns, self.compiles, self.ordinals = START, 0, {"step": 0, "val": 0}
        self.open: StepBegin | None = None

    def later(self) -> int:
        self.ns += self.chance.choice((1, 900, 50_000, 2_000_000))
        return self.ns

    def during(self, what: Callable[[], None], thread: Thread = HOME) -> None:
        begin = Begin(self.later(), "wait", "execute", "execute")
        self.recorder.handle(begin, thread)
        what()
        self.recorder.handle(End(self.later(), begin), thread)

    def compile(self) -> None:
        n, self.compiles = self.compiles, self.compiles + 1
        args: Args = {"function": "f", "identity": "f", "inputs": [{"argument": "x", "type": f"f32[{n}]"}]}
        segment = Begin(self.later(), "f", "jax", compile=f"c{n}", args=args | {"origin": "user", "key": "jax:a.py:f"})
        self.recorder.handle(segment, HOME)
        phase = Begin(self.later(), "compile", "jax", "xla.compile")
        self.recorder.handle(phase, HOME)
        self.recorder.handle(End(self.later(), phase), HOME)
        self.recorder.handle(End(self.later(), segment, {"outcome": "compiled"}), HOME)

    def now_and_then(self) -> None:
        """Something that may come at any place."""
        chosen = self.chance.random()
        if chosen < 0.01:
            self.recorder.flush()
        elif chosen < 0.02:
            self.recorder.heartbeat(self.later())
            self.recorder.flush()
        elif chosen < 0.04:
            value = self.chance.choice((1 << 30, 2 << 30, 3 << 30))
            self.recorder.handle(Counter(self.later(), self.chance.choice(("RSS", "CPU")), value, "bytes"), OTHER)
        elif chosen < 0.045:
            self.recorder.handle(Slice(self.later(), self.later(), "numpy", "imports", {"module": "numpy"}), HOME)
        elif chosen < 0.05:
            annotation = Begin(self.later(), "loading", "annotations")
            self.recorder.handle(annotation, HOME)
            self.recorder.handle(End(self.later(), annotation), HOME)
        elif chosen < 0.055:
            self.during(lambda: None, OTHER)
        elif chosen < 0.057:
            self.recorder.handle(Note(self.later(), "something else"), HOME)

    def step(self, name: str, thread: Thread = HOME) -> None:
        self.now_and_then()
        begin = StepBegin(self.later(), name, self.ordinals[name])
        self.ordinals[name] += 1
        self.recorder.handle(begin, thread)
        if begin.n == 0 or self.chance.random() < 0.01:
            self.compile()
        self.now_and_then()
        if self.chance.random() < 0.98:
            self.during(self.now_and_then, thread)
        complete, calls = self.chance.random() < 0.99, int(self.chance.random() < 0.01)
        self.recorder.handle(StepEnd(self.later(), begin, complete, calls), thread)

    def synced(self) -> None:
        """A step up to a sync: the next begins where it ends."""
        if (before := self.open) is not None:
            self.during(lambda: None)
            self.recorder.handle(StepEnd(self.ns, before, self.chance.random() < 0.01, 0), HOME)
        self.open = StepBegin(self.ns, "step", before.n + 1 if before is not None else 0, inferred=True)
        self.recorder.handle(self.open, HOME)
        self.now_and_then()
        if self.open.n == 0 or self.chance.random() < 0.01:
            self.compile()

    def call(self, candidate: Candidate) -> None:
        """What may be a step."""
        self.now_and_then()
        begin = self.later()
        if self.chance.random() < 0.01 or begin < START + 2_000_000:
            self.compile()
        candidate.calls.append((begin if candidate.kind == "optimizer" else 0, self.later()))
        if len(candidate.calls) == 50:
            self.written(candidate)

    def written(self, candidate: Candidate) -> None:
        if spans := candidate.take():
            self.recorder.handle(Calls(spans[-1][1], candidate, spans), HOME)

    def end(self, *, killed: bool = False) -> None:
        if not killed:
            about: Args = {"ended": "ok", "versions": {"python": "3.11.7", "jax": "0.10.2"}}
            self.recorder.finish(self.later(), about, Snapshot(self.ns, self.ns, self.ns, 1))
        self.recorder.flush()
        os.close(self.fd)


@pytest.mark.parametrize("seed", range(12))
def test_steps_that_are_put_together_are_told_like_any_others(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.pftrace"
    run = Run(path, seed)
    for n in range(400):
        run.step("val" if n % 50 > 45 else "step", OTHER if seed % 3 == 1 and n % 100 < 30 else HOME)
    run.end(killed=seed % 4 == 3)
    together, apart = both(path, monkeypatch)
    assert told(together) == told(apart)
    assert isinstance(together.intervals, Intervals)
    assert len(together.intervals.parts) < len(apart.intervals)
    for index, row in enumerate(apart.intervals):
        assert together.intervals[index] == row
    assert together.intervals[3:9] == apart.intervals[3:9]
    for ns in (0, apart.intervals[7].start_ns, apart.intervals[7].start_ns + 1, apart.run.wall_ns):
        at = together.intervals.at(ns)
        assert apart.intervals[at].start_ns <= ns


@pytest.mark.parametrize("seed", range(6))
def test_steps_up_to_a_sync_are_told_likewise(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.pftrace"
    run = Run(path, seed, ("jax", "steps"))
    for _ in range(300):
        run.synced()
    marked = seed == 5  # from here on those before do not count
    for _ in range(100 * marked):
        run.step("val")
    run.end(killed=seed % 4 == 3)
    together, apart = both(path, monkeypatch)
    assert told(together) == told(apart)
    assert isinstance(together.intervals, Intervals)
    assert len(together.intervals.parts) < len(apart.intervals) / 2
    assert [*together.intervals] == apart.intervals
    assert together.intervals[-2].source == ("marked" if marked else "inferred")


@pytest.mark.parametrize("seed", range(9))
def test_steps_that_are_inferred_are_told_likewise(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.pftrace"
    run = Run(path, seed, ("jax", "steps"))
    train, evaluate, other = candidates = [
        Candidate(kind, name, PLACE | {"line": line}, loop=True, id=name, tid=HOME.tid)
        for kind, name, line in (("call", "update", 5), ("call", "evaluate", 9), ("optimizer", "SGD", 6))
    ]
    for n in range(400):
        run.call(evaluate if seed % 3 and n % 60 > 50 else other if seed % 3 == 2 else train)
    for candidate in candidates:
        run.written(candidate)
    run.end(killed=seed % 4 == 3)
    together, apart = both(path, monkeypatch)
    assert told(together) == told(apart)
    assert isinstance(together.intervals, Intervals)
    assert len(together.intervals.parts) < len(apart.intervals) / 2
    assert [*together.intervals] == apart.intervals
    assert {row.name for row in apart.intervals if row.kind == "step"} > ({"call of evaluate"} if seed % 3 else set())


def test_calls_that_are_written_early_move_nothing_that_is_known_late(tmp_path: Path, engine: ModuleType) -> None:
    path = tmp_path / "t.pftrace"
    run = Run(path, 0)
    update = Candidate("call", "update", PLACE | {"line": 5}, loop=True, id="update", tid=HOME.tid)
    update.calls.append((0, START + 9_000_000))
    run.written(update)  # the drain came between the call's end and what that had done
    begin = Begin(START + 4_000_000, "sync", "torch_xla")
    emit_whole(lambda event: run.recorder.handle(event, HOME), begin, START + 8_000_000)
    run.ns = START + 9_000_000
    run.end()
    [[row]] = engine.query(path, "select dur from slice where name = 'sync'")
    assert row["dur"] == 4_000_000


@pytest.mark.parametrize("seed", range(4))
def test_a_cut_file_is_told_likewise(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.pftrace"
    run = Run(path, seed)
    for _ in range(120):
        run.step("step")
        run.recorder.flush()
    run.end()
    whole = path.read_bytes()
    for at in random.Random(seed).sample(range(len(whole) // 4, len(whole)), 6):
        path.write_bytes(whole[:at])
        assert told(coldstep.load(path)) == told(both(path, monkeypatch)[0])


def test_a_job_of_long_runs_is_told_likewise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = []
    for rank in range(2):
        paths.append(tmp_path / f"{rank}.pftrace")
        generated_trace.write(paths[-1], steps=300, compiles=4)
    with pytest.raises(SystemExit) as ended:
        main(["merge", *map(str, paths), "-o", str(tmp_path / "job.pftrace")])
    assert not ended.value.code
    together, apart = both(tmp_path / "job.pftrace", monkeypatch)
    assert told(together) == told(apart)
    assert [row.index for row in together.intervals] == list(range(len(apart.intervals)))


@pytest.mark.parametrize("inferred", [False, True])
def test_of_a_long_run_little_is_kept(tmp_path: Path, inferred: bool) -> None:
    path = tmp_path / "t.pftrace"
    generated_trace.write(path, steps=5_000, compiles=10, inferred=inferred)
    trace = coldstep.load(path)
    assert isinstance(trace.intervals, Intervals)
    assert len(trace.intervals) == 10_001
    rows = [part for part in trace.intervals.parts if not isinstance(part, Alike)]
    assert len(rows) < 100  # the rest: four stamps a step
    assert sum(len(part.stamps) * part.steps for part in trace.intervals.parts if isinstance(part, Alike)) < 20_250
    assert {row.source for row in trace.intervals if row.kind == "step"} == {"inferred" if inferred else "marked"}
    assert len(page(trace)) < 700_000
    for before, after in pairwise(trace.intervals):
        assert before.start_ns + before.wall_ns == after.start_ns
        assert sum(before.phases.values()) + before.unattributed_ns == before.wall_ns


def test_steps_between_recompiles_are_put_together_however_few_they_are(tmp_path: Path) -> None:
    path = tmp_path / "t.pftrace"
    generated_trace.write(path, steps=2_000, compiles=200)
    trace = coldstep.load(path)
    assert isinstance(trace.intervals, Intervals)
    rows = [part for part in trace.intervals.parts if not isinstance(part, Alike)]
    assert len(rows) < 5 * len(trace.compiles)  # the compile's step, the one behind it, what lies before each


def test_json_comes_in_pieces_and_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "t.pftrace"
    generated_trace.write(path, steps=2_000, compiles=10)
    trace = coldstep.load(path)
    pieces = list(text(trace))
    assert max(map(len, pieces)) < 200_000 < sum(map(len, pieces))
    document = trace.to_json()
    document = {"schema": document.pop("schema"), "headline": headline(trace), **document}
    assert "".join(pieces) == json.dumps(document)
    assert "".join(text(trace, indent=2)) == json.dumps(document, indent=2)


def test_steps_that_changed_nothing_are_told_in_sum(tmp_path: Path) -> None:
    path = tmp_path / "t.pftrace"
    generated_trace.write(path, steps=2_000, compiles=10)
    trace = coldstep.load(path)
    document = json.loads("".join(text(trace, changed=True)))
    left = document["intervals"]
    assert [row["step"] for row in left if row["compiles"]] == list(range(0, 2_000, 200))
    assert not any(row["label"] == "steady" for row in left)
    assert sum(row["count"] for row in document["steady"]) == 1_990
    assert sum(row["wall_ns"] for row in (*left, *document["steady"])) == trace.run.wall_ns
    for phase in ("execute", "xla.compile"):
        told = sum(row["phases"].get(phase, 0) for row in (*left, *document["steady"]))
        assert told == sum(row.phases.get(phase, 0) for row in trace.intervals)
    first = document["steady"][0]
    assert first["steps"] == [1, 199]
    assert first["step_ns"]["least"] <= first["step_ns"]["median"] <= first["step_ns"]["most"]


def test_steps_read_at_once_are_those_read_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "t.pftrace"
    run = Run(path, 5)
    for _ in range(600):
        run.step("step")
    run.end()
    found = list(folded(path))
    many = [row for row in found if isinstance(row, Repeats)]
    assert sum(row.count for row in many) > 300
    each = [one for row in found for one in (row.rows(row.count) if isinstance(row, Repeats) else (row,))]
    assert each == list(rows(path))
