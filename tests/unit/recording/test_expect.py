"""What a program is told of its recompiles while it runs, and what people's own suites can assert."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import program
import pytest

import coldstep
from coldstep.analysis.budgets import BudgetError
from coldstep.testing import assert_budget, record

pytestmark = [pytest.mark.jax, pytest.mark.torch]

JAX = """
import jax, numpy as np, sys
import coldstep

@jax.jit
def train_step(batch):
    return (batch["x"] ** 2).sum()

def train(*sizes):
    for size in sizes:
        batch = {"x": np.ones((size, 4), np.float32)}
        with coldstep.step():
            coldstep.wait(train_step(batch))
"""
TORCH = """
import torch, sys
import coldstep

@torch.compile(backend="eager")
def train_step(batch):
    return (batch["x"] ** 2).sum()

def train(*sizes):
    for size in sizes:
        batch = {"x": torch.ones(size, 4)}
        with coldstep.step():
            train_step(batch)
"""
BOTH = pytest.mark.parametrize("stack", [JAX, TORCH], ids=["jax", "torch"])


def run(tmp_path: Path, *parts: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    source = "\n".join(map(textwrap.dedent, parts))
    return program.run(source, tmp_path, check=check, stack=program.stack_of(source))


# --- on_recompile -------------------------------------------------------------------------------------------------


@BOTH
def test_the_callback_gets_the_cause_both_values_and_the_users_frame(tmp_path: Path, stack: str) -> None:
    told = """
        kept = []
        def told(r):
            kept.append(r)
            print(r.function, r.step, r.cause, r.argument, r.before, r.after, r.confidence)
            print(r.location.file, r.location.line, r.caller.file, r.caller.function)
            print(r.frame.f_code.co_name, r.frame.f_locals["size"], r.frame.f_locals["batch"]["x"].shape[0])
        with coldstep.trace("t.pftrace", on_recompile=told):
            train(8, 8)
            paid = {"coldstep.notices.recompiled", "coldstep.loading"} & set(sys.modules)
            assert not paid, "without a recompile"
            train(5)
            assert len(kept) == 1
            train(5, 8)
        assert kept[0].frame is None
        print(kept[0])
    """
    lines = run(tmp_path, program.ANEW, stack, told).stdout.splitlines()
    assert lines[0] == "train_step 2 shape batch['x'] f32[8,4] f32[5,4] proven"
    line = next(
        n for n, text in enumerate((tmp_path / "program.py").read_text().splitlines(), 1) if "def train_" in text
    )
    assert lines[1] == f"program.py {line} program.py train"
    assert lines[2] == "train 5 5"
    assert "train_step recompiled in step 2 (shape): batch['x'] was f32[8,4], now f32[5,4]" in lines[3]
    [recompile] = coldstep.load(tmp_path / "t.pftrace").recompiles
    assert (recompile.argument, recompile.before, recompile.after) == ("batch['x']", "f32[8,4]", "f32[5,4]")


@BOTH
@pytest.mark.parametrize("before", [0, 3], ids=["", "compiled-before"])
def test_the_callback_and_the_report_have_the_same_evidence(tmp_path: Path, stack: str, before: int) -> None:
    told = f"""
        if {before}:
            train({before})
        told = []
        with coldstep.trace("t.pftrace", on_recompile=told.append) as run:
            train(5, 6)
        rows = coldstep.load("t.pftrace").recompiles
        print([(row.cause, row.evidence) for row in told] == [(row.cause, row.evidence) for row in rows])
        rest = (line.partition(", variant ")[2] for line in run.report().splitlines() if ", cost " in line)
        print(sorted(text.partition(":")[0] for text in rest))
        print(*[row.evidence for row in rows], sep="\\n")
    """
    same, variants, *evidence = run(tmp_path, stack, told).stdout.splitlines()
    assert same == "True"
    of_jax = "['2 or later', '3 or later']" if before else "['2']"
    assert variants == (of_jax if stack == JAX else "['2 of 8 allowed']")
    assert evidence
    assert not any("not traced again" in row for row in evidence)
    if stack == JAX:
        before_it = ["['it was compiled before the trace began: what for is not known']"] if before else []
        assert evidence == [*before_it, "[]"]


def test_that_nothing_was_traced_again_is_evidence_in_both(tmp_path: Path) -> None:
    told = """
        told = []
        x = jax.numpy.ones((3, 4))
        with coldstep.trace("t.pftrace", on_recompile=told.append):
            train_step({"x": x})
            train_step({"x": jax.device_put(x, jax.devices()[0])})
        [row] = coldstep.load("t.pftrace").recompiles
        assert [each.evidence for each in told] == [row.evidence], told
        print(row.evidence)
    """
    assert "not traced again, only lowered and compiled" in run(tmp_path, JAX, told).stdout


def test_without_marks_the_end_of_the_block_tells(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        JAX,
        """
        with coldstep.trace("t.pftrace", on_recompile=print):
            for size in (8, 5):
                train_step({"x": np.ones((size, 4), np.float32)})
        """,
    )
    assert done.stdout.count("train_step recompiled (shape): batch['x'] was f32[8,4], now f32[5,4]") == 1


def test_a_callback_may_stop_the_program_and_the_trace_is_whole(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        JAX,
        """
        def stop(r):
            raise LookupError(f"{r.argument} is {r.after}")
        with coldstep.trace("t.pftrace", on_recompile=stop):
            train(8, 5, 8)
        """,
        check=False,
    )
    assert done.returncode == 1
    assert "\nLookupError: batch['x'] is f32[5,4]\n" in done.stderr
    trace = coldstep.load(tmp_path / "t.pftrace")
    assert (trace.run.ended, len(trace.recompiles)) == ("exception", 1)


def test_a_debugger_can_stop_in_the_users_frame(tmp_path: Path) -> None:
    source = textwrap.dedent(JAX) + textwrap.dedent(
        """
        def stop(r):
            breakpoint()
        with coldstep.trace("t.pftrace", on_recompile=stop):
            train(8, 5)
        """
    )
    (tmp_path / "program.py").write_text(source)
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        input="up\nup\nup\np ('here', size, batch['x'].shape)\nc\n",
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "('here', 5, (5, 4))" in done.stdout


def test_a_trace_that_joins_coldstep_run_is_told_too(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        JAX + 'train(8)\nwith coldstep.trace("own.pftrace", on_recompile=print):\n    train(5)\ntrain(6)\n'
    )
    done = program.warm("jax", ["coldstep", "run", "train.py"], tmp_path)
    assert done.stdout.count("train_step recompiled in step 1 (shape)") == 1
    assert "step 2" not in done.stdout


# --- expect_no_recompile ------------------------------------------------------------------------------------------


@BOTH
def test_a_block_without_recompiles_passes_and_leaves_nothing(
    tmp_path: Path, stack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    done = run(
        tmp_path,
        stack,
        """
        with coldstep.expect_no_recompile():
            train(8, 8, 8)
        with coldstep.expect_no_recompile():
            train(8)
        print("passed")
        """,
    )
    assert done.stdout == "passed\n"
    assert done.stderr == ""
    assert list(tmp_path.glob("coldstep-*")) == []


@BOTH
def test_a_recompile_is_raised_with_its_cause(tmp_path: Path, stack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    done = run(
        tmp_path,
        stack,
        """
        try:
            with coldstep.expect_no_recompile():
                train(8, 5)
        except coldstep.RecompileError as error:
            assert [r.cause for r in error.recompiles] == ["shape"]
            print(error)
        """,
    )
    lines = done.stdout.splitlines()
    assert lines[0] == "a recompile where none was expected"
    assert "train_step recompiled in step 1 (shape): batch['x'] was f32[8,4], now f32[5,4]" in lines[1]
    kept = Path(lines[-1].removeprefix("The trace: "))
    assert kept.parent == tmp_path
    assert [row.cause for row in coldstep.load(kept).recompiles] == ["shape"]


@BOTH
def test_what_was_compiled_before_the_block_counts(tmp_path: Path, stack: str) -> None:
    run(
        tmp_path,
        stack,
        """
        train(8)
        with coldstep.expect_no_recompile():
            train(8, 8)
        try:
            with coldstep.expect_no_recompile():
                train(5)
        except coldstep.RecompileError as error:
            [r] = error.recompiles
            assert r.function == "train_step", r
            assert r.evidence, r
        else:
            raise SystemExit("nothing was raised")
        """,
    )


def test_within_a_trace_only_the_block_counts(tmp_path: Path) -> None:
    run(
        tmp_path,
        JAX,
        """
        with coldstep.trace("t.pftrace", on_recompile=lambda r: print("told", r.step)) as outer:
            train(8, 5)
            with coldstep.expect_no_recompile():
                train(8, 5)
            try:
                with coldstep.expect_no_recompile():
                    train(6)
            except coldstep.RecompileError as error:
                assert "The trace" not in str(error)
                assert error.recompiles[0].before == "f32[5,4]", error.recompiles
            else:
                raise SystemExit("nothing was raised")
            train(7)
        """,
    )
    assert [row.step for row in coldstep.load(tmp_path / "t.pftrace").recompiles] == [1, 4, 5]


def test_the_blocks_own_error_goes_first(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        JAX,
        """
        with coldstep.expect_no_recompile():
            train(8, 5)
            raise LookupError("no data")
        """,
        check=False,
    )
    assert done.stderr.strip().splitlines()[-1] == "LookupError: no data"


def test_what_could_not_be_seen_is_no_pass(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        JAX,
        """
        import coldstep_collectors.jax.collector as ours
        ours.Describer.describe = lambda *_: 1 / 0
        with coldstep.expect_no_recompile():
            train(8, 5)
        """,
        check=False,
    )
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("RuntimeError: expect_no_recompile() did not see everything: collector jax failed")


# --- coldstep.testing ---------------------------------------------------------------------------------------------


def test_a_recorded_block_has_rows_and_a_budget(tmp_path: Path) -> None:
    import jax
    import numpy as np

    @jax.jit
    def train_step(x: object) -> object:
        return x * 2  # type: ignore[operator]

    with record() as recording:
        with pytest.raises(RuntimeError, match="has not ended"):
            recording.trace  # noqa: B018
        for size in (8, 8, 8, 8, 5):
            with coldstep.step():
                coldstep.wait(train_step(np.ones(size, np.float32)))
    trace = recording.trace
    assert [row.cause for row in trace.recompiles] == ["shape"]
    assert not Path(recording.path).exists()
    assert_budget(trace, max_recompiles=1, settle_by=1, max_graph_breaks=0)
    with pytest.raises(AssertionError) as raised:
        assert_budget(trace, max_recompiles=0, forbid=["shape"], max_compiles={"train_step": 1})
    text = str(raised.value)
    assert "max_recompiles: 1, 0 allowed" in text
    assert text.count("train_step recompiled in step 4 (shape): x was f32[8], now f32[5]") == 1
    assert "test_expect.py:" in text
    with pytest.raises(AssertionError, match=r"settle_by of train: could not check: no step is called train"):
        assert_budget(trace, settle_by={"train": 1})
    with pytest.raises(BudgetError, match="unknown limit"):
        assert_budget(trace, recompiles=0)


def test_a_recording_can_be_kept(tmp_path: Path) -> None:
    with record(tmp_path / "kept.pftrace") as recording, coldstep.trace(tmp_path / "joins.pftrace"), coldstep.step():
        pass
    assert [row.kind for row in recording.trace.intervals].count("step") == 1
    assert coldstep.load(tmp_path / "kept.pftrace").run.ended == "ok"
    assert not (tmp_path / "joins.pftrace").exists()
