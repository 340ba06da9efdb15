"""The pytest plugin on real frameworks: budgets of tests, their failures, and the traces that they leave."""

from __future__ import annotations

from pathlib import Path

import program
import pytest

import coldstep

pytest_plugins = ["pytester"]
pytestmark = [pytest.mark.jax, pytest.mark.torch]

WITHOUT = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")  # which imports all of Hypothesis as a session ends
HEAD = """
import jax, numpy as np, pytest
import coldstep

@jax.jit
def train_step(batch):
    return (batch["x"] ** 2).sum()

def train(*sizes):
    for size in sizes:
        with coldstep.step():
            coldstep.wait(train_step({"x": np.ones((size, 4), np.float32)}))
"""


def run(pytester: pytest.Pytester, source: str, *words: str, stack: str = "jax") -> pytest.RunResult:
    """What pytest makes of these tests, in a process of its own that has imported the stack's framework."""
    pytester.makepyfile(test_it=HEAD + source, starts="import sys, pytest\nsys.exit(pytest.main(sys.argv[1:]))")
    command = ["starts.py", "--strict-markers", *WITHOUT, *words]
    done = program.warm(stack, command, pytester.path, check=False)
    return pytest.RunResult(done.returncode, done.stdout.splitlines(), done.stderr.splitlines(), 0.0)


def kept(pytester: pytest.Pytester, folder: str = "coldstep-results") -> list[str]:
    return (
        sorted(path.name for path in (pytester.path / folder).glob("*.pftrace"))
        if (pytester.path / folder).exists()
        else []
    )


def test_a_test_within_its_budget_passes_and_leaves_nothing(pytester: pytest.Pytester) -> None:
    done = run(
        pytester,
        """
@pytest.mark.coldstep(max_recompiles=0, settle_by=1, max_graph_breaks=0)
def test_training():
    train(8, 8, 8, 8)

def test_of_another_kind():
    train(8, 5)
""",
    )
    done.assert_outcomes(passed=2)
    assert kept(pytester) == []


def test_a_failure_shows_the_finding_and_keeps_the_trace(pytester: pytest.Pytester) -> None:
    done = run(
        pytester,
        """
@pytest.mark.coldstep(max_recompiles=0)
@pytest.mark.parametrize("last", [5, 8])
def test_training(last):
    train(8, 8, 8, last)
""",
    )
    done.assert_outcomes(failed=1, passed=1)
    done.stdout.fnmatch_lines(
        [
            "over budget: 1 recompile, 0 allowed",
            "test_it.py:11: train_step recompiled in step 3 (shape): batch?'x'? was f32?8,4?, now f32?5,4?",
            "*pad the last batch*",
            "trace: coldstep-results/test_it.py-test_training-5.pftrace",
        ]
    )
    assert kept(pytester) == ["test_it.py-test_training-5.pftrace"]
    [recompile] = coldstep.load(pytester.path / "coldstep-results" / kept(pytester)[0]).recompiles
    assert recompile.cause == "shape"


def test_graph_breaks_and_recompiles_of_torch_are_budgeted_too(pytester: pytest.Pytester) -> None:
    done = run(
        pytester,
        """
import torch

@torch.compile(backend="eager")
def step(x):
    y = x.sum()
    print("a side effect")
    return y * 2

@pytest.mark.coldstep(max_graph_breaks=0)
def test_breaks():
    step(torch.ones(3))

@pytest.mark.coldstep(max_recompiles=0, max_graph_breaks=1)
def test_recompiles():
    step(torch.ones(4, 4))
""",
        stack="torch",
    )
    done.assert_outcomes(failed=2)
    done.stdout.fnmatch_lines(
        ["over budget: 1 graph break, 0 allowed", "test_it.py:18: Graph break in step (side_effect): *(print)"]
    )
    # of a function that an earlier test had compiled, too
    done.stdout.fnmatch_lines(["over budget: 1 recompile, 0 allowed"])


def test_what_an_earlier_test_compiled_is_not_compiled_for_the_first_time(pytester: pytest.Pytester) -> None:
    done = run(
        pytester,
        """
def test_before():
    train(8)

@pytest.mark.coldstep(max_recompiles=0)
def test_again():
    train(8)

@pytest.mark.coldstep(max_recompiles=0)
def test_of_another_size():
    train(5)
""",
    )
    done.assert_outcomes(passed=2, failed=1)
    done.stdout.fnmatch_lines(
        ["*train_step recompiled in step 0 (unknown)", "*it was compiled before the trace began*"]
    )


def test_what_cannot_be_judged_fails(pytester: pytest.Pytester) -> None:
    done = run(
        pytester,
        """
@pytest.mark.coldstep(settle_by=1)
def test_no_steps():
    train_step({"x": np.ones((3, 4), np.float32)})
""",
    )
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["could not check: settle_by: no step was marked"])


def test_the_fixture_is_the_running_trace(pytester: pytest.Pytester) -> None:
    done = run(
        pytester,
        """
def test_run(coldstep_run):
    train(8, 8)
    assert coldstep_run.step_names == {"step"}

@pytest.mark.coldstep(max_compiles={"train_step": 1})
def test_run_with_a_budget(coldstep_run):
    train(3, 4)

def test_that_fails(coldstep_run):
    train(6)
    assert coldstep_run is None
""",
        "--coldstep-output=traces",
    )
    done.assert_outcomes(passed=1, failed=2)
    done.stdout.fnmatch_lines(["over budget: train_step: 2 compiles, 1 allowed"])
    assert (pytester.path / "traces" / ".gitignore").read_text() == "*\n"
    done.stdout.fnmatch_lines(["*- Captured coldstep call -*", "trace: traces/test_it.py-test_that_fails.pftrace"])
    assert kept(pytester, "traces") == [
        "test_it.py-test_run_with_a_budget.pftrace",
        "test_it.py-test_that_fails.pftrace",
    ]


def test_marks_of_class_and_test_are_one_budget(pytester: pytest.Pytester) -> None:
    done = run(
        pytester,
        """
@pytest.mark.coldstep(max_recompiles=0, settle_by=1)
class TestTraining:
    @pytest.mark.coldstep(max_recompiles=1)
    def test_allowed(self):
        train(13, 13, 13, 13, 14)

    def test_strict(self):
        train(13, 13, 13, 13, 15)
""",
    )
    done.assert_outcomes(failed=1, passed=1)


def test_a_bad_mark_is_one_clear_line(pytester: pytest.Pytester) -> None:
    done = run(
        pytester,
        """
@pytest.mark.coldstep(max_recompile=0)
def test_misspelt(): raise SystemError("it ran")

@pytest.mark.coldstep(0)
def test_nameless(): raise SystemError("it ran")

@pytest.mark.coldstep(forbid=["weather"])
def test_unknown_cause(): raise SystemError("it ran")

@pytest.mark.coldstep(max_slowdown="20%")
def test_time(): raise SystemError("it ran")

@pytest.mark.coldstep
def test_no_limit(): raise SystemError("it ran")
""",
    )
    done.assert_outcomes(failed=5)
    for said in (
        "pytest.mark.coldstep: unknown limit 'max_recompile'; there are max_recompiles, *",
        "pytest.mark.coldstep takes limits by name only, such as max_recompiles=0",
        "pytest.mark.coldstep: forbid: 'weather' is no cause; *",
        "pytest.mark.coldstep: max_slowdown needs several runs: use coldstep check",
        "pytest.mark.coldstep: no budget: give a limit such as max_recompiles=0",
    ):
        done.stdout.fnmatch_lines([said])
    done.stdout.no_fnmatch_line("During handling of*")
    done.stdout.no_fnmatch_line("*it ran*")


def test_a_test_that_ends_otherwise_keeps_its_own_outcome(pytester: pytest.Pytester) -> None:
    done = run(
        pytester,
        """
pytestmark = pytest.mark.coldstep(max_recompiles=0)

def test_raises():
    train(21)
    raise ValueError("no data")

def test_skipped():
    pytest.skip("not today")

@pytest.mark.xfail
def test_expected():
    train(22, 23)

@pytest.fixture
def broken(coldstep_run):
    raise LookupError("no fixture")

def test_without_its_fixture(broken):
    pass
""",
    )
    done.assert_outcomes(failed=1, skipped=1, xfailed=1, errors=1)
    done.stdout.fnmatch_lines(["E*ValueError: no data"])
    assert kept(pytester) == ["test_it.py-test_expected.pftrace", "test_it.py-test_raises.pftrace"]


def test_traces_in_the_test_join_and_expectations_hold(pytester: pytest.Pytester) -> None:
    done = run(
        pytester,
        """
@pytest.mark.coldstep(max_recompiles=1)
def test_training(tmp_path):
    with coldstep.trace(tmp_path / "own.pftrace") as run:
        train(31, 31)
        with pytest.raises(coldstep.RecompileError, match="train_step recompiled in step 2"):
            with coldstep.expect_no_recompile():
                train(32)
    assert not (tmp_path / "own.pftrace").exists()
    train(33)
""",
    )
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["over budget: 2 recompiles, 1 allowed"])


def test_it_works_under_xdist(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it=HEAD
        + """
@pytest.mark.coldstep(max_recompiles=0)
@pytest.mark.parametrize("last", [1, 2, 3])
def test_training(last):
    train(8, 8, 8, last)
"""
    )
    done = pytester.runpytest_subprocess("-n", "2", *WITHOUT)
    done.assert_outcomes(failed=3)
    assert kept(pytester) == [f"test_it.py-test_training-{last}.pftrace" for last in (1, 2, 3)]
    for name in kept(pytester):
        assert len(coldstep.load(pytester.path / "coldstep-results" / name).recompiles) >= 1


def test_a_suite_without_the_mark_pays_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_nothing_of_ours_is_imported():
            ours = {name for name in sys.modules if name.partition(".")[0].startswith("coldstep")}
            folders = {"coldstep_viewers", "coldstep_viewers.ci"}
            assert ours == folders | {"coldstep_viewers.ci.pytest_plugin"}
        """
    )
    pytester.runpytest_subprocess(*WITHOUT).assert_outcomes(passed=1)


def test_no_file_is_left_in_the_temporary_folder(
    pytester: pytest.Pytester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    done = run(pytester, "@pytest.mark.coldstep(max_recompiles=0)\ndef test_training():\n    train(41, 42)\n")
    done.assert_outcomes(failed=1)
    assert list(tmp_path.glob("coldstep-*")) == []
