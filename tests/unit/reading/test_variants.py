"""Which compile a recompile replaces, and which step a compile counts for: one rule for the timeline and the report."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import program
import pytest

import coldstep
from coldstep.clock import Snapshot
from coldstep.events import Args, Begin, CollectorState, End, StepBegin, StepEnd
from coldstep.model import Trace
from coldstep.pftrace import layout
from coldstep.pftrace.reader import EventRow, rows
from coldstep.recording.buffer import Thread
from coldstep.recording.recorder import Recorder

ENVIRONMENT = {"XLA_FLAGS": "--xla_force_host_platform_device_count=1", "PJRT_DEVICE": "CPU"}
JAX = """
    import functools, threading
    import jax, jax.numpy as jnp
    import coldstep

    began, ended = threading.Event(), threading.Event()

    @functools.partial(jax.jit, static_argnames="scale")
    def train(x, scale):
        return x * scale

    @jax.jit
    def overlapping(x):
        if x.shape == (4,):
            began.set()
            assert ended.wait(60)
        return x * 2

    xs = {rows: jnp.ones(rows) for rows in (4, 5, 6)}
    with coldstep.trace("t.pftrace", device="off"):
        for rows, scale in ((4, 1), (5, 1), (4, 2), (4, 3)):
            with coldstep.step():
                coldstep.wait(train(xs[rows], scale=scale))
        jax.clear_caches()
        train(xs[4], scale=1)
        other = threading.Thread(target=overlapping, args=(xs[4],))
        other.start()
        assert began.wait(60)
        overlapping(xs[5])
        ended.set()
        other.join()
"""
TORCH = """
    import torch
    import coldstep

    @torch.compile(dynamic=False, backend="eager")
    def train(x, flag):
        return x.cos() if flag else x.sin()

    with coldstep.trace("t.pftrace", device="off"):
        for n, (rows, flag) in enumerate(((4, True), (5, True), (4, False), (4, True), (5, True), (6, True))):
            if n == 3:
                torch._dynamo.reset()
            with coldstep.step():
                train(torch.ones(rows), flag)
"""
TORCH_XLA = """
    import torch
    import torch_xla
    import coldstep

    device = torch_xla.device()
    weight = torch.ones(4, device=device)

    def run(rows, validate):
        x = torch.ones(rows, 4).to(device)
        loss = (x * weight).cos().sum() if validate else (x * weight).sum()
        torch_xla.sync()
        return coldstep.wait(loss)

    torch_xla.sync()
    with coldstep.trace("t.pftrace", device="off"):
        for rows in (3, 3, 5):
            with coldstep.step("train"):
                loss = run(rows, validate=False)
            with coldstep.step("validate"):
                run(rows, validate=True)
        with coldstep.step("read"):
            loss = run(5, validate=False)
        with coldstep.step("read"):
            loss = run(5, validate=False)
        (loss * 2).item()
        with coldstep.step("read"):
            run(5, validate=False)
        (loss * 3 + 1).item()
"""


def recorded(source: str, folder: Path) -> Path:
    program.run(source, folder, env=ENVIRONMENT, stack=program.stack_of(source))
    return folder / "t.pftrace"


def arrows(path: Path, engine: ModuleType) -> list[tuple[str, str]]:
    """Every arrow between two compiles, as Perfetto draws them."""
    engine.assert_clean(path)
    [rows] = engine.query(
        path,
        """select extract_arg(o.arg_set_id, 'debug.compile') was, extract_arg(i.arg_set_id, 'debug.compile') now
           from flow f join slice o on f.slice_out = o.id join slice i on f.slice_in = i.id
           where o.category = 'compile' and i.category = 'compile'""",
    )
    return sorted((row["was"], row["now"]) for row in rows)


def replaced(trace: Trace) -> list[tuple[str | None, str]]:
    return sorted((row.previous, row.compile) for row in trace.recompiles)


@pytest.mark.jax
def test_jax_arrows_come_from_what_the_report_says_was_replaced(tmp_path: Path, engine: ModuleType) -> None:
    path = recorded(JAX, tmp_path)
    trace = coldstep.load(path)
    [overlapping] = [row for row in trace.recompiles if trace.compiles[int(row.compile[1:])].function == "overlapping"]
    assert (overlapping.before, overlapping.after) == ("f32[5]", "f32[4]"), "the one that was done first is replaced"
    # Perfetto lets an arrow leave from what begins first, so that none can be drawn here
    assert arrows(path, engine) == [row for row in replaced(trace) if row[1] != overlapping.compile]
    assert len(trace.recompiles) == 5


@pytest.mark.torch
def test_torch_arrows_come_from_what_the_report_says_was_replaced(tmp_path: Path, engine: ModuleType) -> None:
    path = recorded(TORCH, tmp_path)
    trace = coldstep.load(path)
    assert arrows(path, engine) == replaced(trace)
    steps = {row.compile: row.step for row in trace.recompiles} | {trace.compiles[0].id: 0}
    assert [(steps[row.previous or ""], row.step) for row in trace.recompiles] == [
        (0, 1),
        (0, 2),
        (0, 3),
        (3, 4),
        (4, 5),
    ]


@pytest.mark.torch_xla
def test_torch_xla_arrows_and_titles_are_the_reports(tmp_path: Path, engine: ModuleType) -> None:
    path = recorded(TORCH_XLA, tmp_path)
    trace = coldstep.load(path)
    assert arrows(path, engine) == replaced(trace)
    names = {each: row.name for row in trace.intervals for each in row.compiles}
    assert [(names[row.previous or ""], names[row.compile]) for row in trace.recompiles][-3:] == [
        ("train", "train"),
        ("validate", "validate"),
        ("read", None),  # behind the last step: no sync follows it
    ]
    titles = [
        row["name"] for row in engine.query(path, "select name from slice where category = 'step' order by ts")[0]
    ]
    assert titles[-3:] == ["read 0 first", "read 1 compiled", "read 2 clean"]
    assert titles == [
        layout.step_name(
            row.name or "", row.step or 0, "first" if not row.step else "compiled" if row.compiles else "clean"
        )
        for row in trace.intervals
        if row.kind == "step"
    ]


@pytest.mark.parametrize("then", ["killed", "compiled", "ended"])
def test_a_step_that_a_compile_may_still_count_for(tmp_path: Path, then: str) -> None:
    """torch_xla's steps are drawn when the next one begins; a process that is killed before has had them, too."""
    path, home = tmp_path / "t.pftrace", Thread(1, "MainThread")
    about: Args = {"schema": layout.FILE_SCHEMA, "tid": home.tid, "collectors": ["torch_xla"]}
    with path.open("wb") as file:
        recorder = Recorder(file.fileno(), home, None, Snapshot(1, 1, 1, 0), about)
        recorder.handle(CollectorState(2, "torch_xla", "attached", "2.9.0", []), home)
        for n in (0, 1):
            step = StepBegin(100 * n + 100, "step", n)
            recorder.handle(step, home)
            recorder.handle(StepEnd(100 * n + 150, step, True, 0), home)
        compiled = Begin(260, "sync", "torch_xla", None, "c0", {"origin": "user", "identity": "a"})
        recorder.handle(compiled, home)
        recorder.handle(End(270, compiled, {"outcome": "compiled"}), home)
        if then == "compiled":
            recorder.handle(StepBegin(300, "step", 2), home)
        if then == "ended":
            recorder.finish(280, {"ended": "ok"})
        recorder.flush()
    trace = coldstep.load(path)
    steps = [row for row in trace.intervals if row.kind == "step"]
    assert [(row.step, row.wall_ns, row.measures) for row in steps[:2]] == [(0, 50, "complete"), (1, 50, "complete")]
    assert trace.unfinished == (steps[2].index if then == "compiled" else None)
    assert steps[1].compiles == (["c0"] if then == "compiled" else [])
    titles = [row.name for row in rows(path) if isinstance(row, EventRow) and row.category == layout.STEP]
    assert (
        titles
        == {
            "killed": ["step 0 first"],
            "compiled": ["step 0 first", "step 1 compiled"],
            "ended": ["step 0 first", "step 1 clean"],
        }[then]
    )
