"""`coldstep lock`: a text that a program always gets, whose diff says what a change made compile."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from pathlib import Path

import generated_trace
import program
import pytest
import small_repository
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

import coldstep
from coldstep.analysis.across.run_diff import Function, Summary, summarize
from coldstep.analysis.budgets import Budget, judge
from coldstep.errors import TraceError
from coldstep_viewers.ci import lockfile
from coldstep_viewers.commands import cli

pytestmark = [pytest.mark.jax, pytest.mark.torch]


def coldstep_(*words: str | Path) -> Result:
    return CliRunner().invoke(cli.main, [str(word) for word in words], catch_exceptions=False)


def locked(trace: Path) -> str:
    done = coldstep_("lock", trace)
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout


def test_the_lock_says_what_compiles_and_why(repository: Path) -> None:
    text = locked(repository / "branch.pftrace")
    assert "\ntrain_step: 2 compiles (jax, train.py)\n    1 recompile: shape of batch['x']\n" in text
    assert "\nevaluate: 2 compiles (dynamo, train.py)\n    1 recompile: shape of batch['x']\n" in text
    assert "\nstep: settled at step 1\n" in text
    assert str(repository) not in text
    assert not re.search(r"\d (?:ns|µs|ms|s)\b|0x|\bc\d", text)


def test_the_same_program_gets_the_same_text(repository: Path) -> None:
    again = small_repository.run(repository, "again.pftrace")
    assert locked(again) == locked(repository / "branch.pftrace")


def test_its_diff_reads_as_what_changed(repository: Path) -> None:
    main, branch = (locked(repository / name).splitlines() for name in ("main.pftrace", "branch.pftrace"))
    changed = [
        line for line in difflib.unified_diff(main, branch, n=0, lineterm="") if line[:2] not in ("--", "++", "@@")
    ]
    assert changed == [
        "-evaluate: 1 compile (dynamo, train.py)",
        "+evaluate: 2 compiles (dynamo, train.py)",
        "+    1 recompile: shape of batch['x']",
        "-train_step: 1 compile (jax, train.py)",
        "+train_step: 2 compiles (jax, train.py)",
        "+    1 recompile: shape of batch['x']",
    ]


def test_a_run_is_held_against_a_lock(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert coldstep_("lock", repository / "main.pftrace", "-o", "coldstep.lock").stdout == ""
    assert coldstep_("check", repository / "main.pftrace", "--baseline", "coldstep.lock").exit_code == 0
    done = coldstep_("check", repository / "branch.pftrace", "--baseline", "coldstep.lock")
    assert done.exit_code == 1
    assert "over budget: train_step: 1 → 2 compiles\n" in done.stdout
    with open("coldstep.lock", "a") as file:
        file.write("train_step: many compiles\n")
    done = coldstep_("check", repository / "branch.pftrace", "--baseline", "coldstep.lock")
    assert (done.exit_code, done.stdout) == (2, "")
    number = len(Path("coldstep.lock").read_text().splitlines())
    assert done.stderr == (
        f"coldstep: line {number} of coldstep.lock is not a line of a lock: write it again with coldstep check "
        "--write-baseline\n"
    )


def test_resumed_frames_and_libraries_have_names_without_lines_and_folders(tmp_path: Path) -> None:
    done = program.run(
        """
        import torch, coldstep

        @torch.compile(backend="eager")
        def step(x):
            y = x + 1
            print("in the graph")
            return y * 2

        linear = torch.compile(torch.nn.Linear(3, 3), backend="eager")
        with coldstep.trace("t.pftrace"):
            for _ in range(4):
                with coldstep.step():
                    step(linear(torch.ones(3)))
        """,
        tmp_path,
        stack="torch",
    )
    assert done.returncode == 0
    text = locked(tmp_path / "t.pftrace")
    assert "\nstep, resumed: 1 compile (dynamo, program.py)\n" in text
    assert "\nstep: 1 compile (dynamo, program.py)\n    1 graph break: side_effect\n" in text
    assert "(dynamo, torch/nn/modules/linear.py)\n" in text


def test_a_trace_that_did_not_see_everything_is_not_locked(tmp_path: Path) -> None:
    source = "import jax, coldstep\njax.jit(lambda x: x)(1.0)\nwith coldstep.trace('t.pftrace'): pass"
    program.run(source, tmp_path, stack="jax")
    done = coldstep_("lock", tmp_path / "t.pftrace", "-o", tmp_path / "coldstep.lock")
    assert (done.exit_code, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert "the collector jax was attached after something had compiled" in line
    assert not (tmp_path / "coldstep.lock").exists()


def test_a_file_that_cannot_be_written_is_one_line(repository: Path, tmp_path: Path) -> None:
    done = coldstep_("lock", repository / "main.pftrace", "-o", tmp_path / "none" / "coldstep.lock")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.endswith("coldstep.lock: No such file or directory\n")


NAMES = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(["# warm", "two  spaces", '"', "a\nb", ""])
KINDS = st.dictionaries(NAMES, st.integers(1, 9), max_size=3).map(Counter)
FUNCTIONS = st.builds(
    Function, NAMES | st.just(""), NAMES, st.sampled_from(["jax", "dynamo"]), st.integers(1, 99), KINDS, KINDS,
    st.lists(st.integers(0, 9999), max_size=3),
)  # fmt: skip


@given(st.lists(FUNCTIONS, max_size=4), st.dictionaries(NAMES, st.none() | st.integers(0, 99), max_size=3))
def test_what_is_written_is_read_again(tmp_path_factory: pytest.TempPathFactory, functions: list[Function],
                                       settled: dict[str, int | None]) -> None:  # fmt: skip
    summary = Summary({row.key: row for row in functions}, settled)
    path = tmp_path_factory.getbasetemp() / "written.lock"
    path.write_text(lockfile.write(summary), encoding="utf-8")
    assert lockfile.is_lock(str(path))
    assert lockfile.read(str(path)) == summary


def test_a_lock_that_is_no_text_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "coldstep.lock"
    path.write_bytes(lockfile.write(Summary()).encode() + b"\xff\xfe")
    with pytest.raises(TraceError, match="cannot read"):
        lockfile.read(str(path))


def test_of_several_processes_the_costliest_counts(repository: Path) -> None:
    trace = coldstep.load(repository / "branch.pftrace")
    trace.processes.append(trace.processes[0].__class__(**{**_fields(trace.processes[0]), "index": 1}))
    assert summarize(trace).functions[("train.py", "train_step", "jax")].compiles == 2


def _fields(row: object) -> dict[str, object]:
    return {name: getattr(row, name) for name in row.__class__.__slots__}


def test_a_run_keeps_to_its_own_lock_whatever_its_names(tmp_path: Path) -> None:
    path = tmp_path / "run.pftrace"
    generated_trace.write(path, steps=40, compiles=3, function="two  spaces\nand a line")
    trace = coldstep.load(path)
    summary = summarize(trace)
    for row in trace.settling:
        summary.settled |= dict.fromkeys(("# warm", "two  spaces", "two spaces", ""), row.settled_at_step)
    lock = tmp_path / "run.lock"
    lock.write_text(lockfile.write(summary), encoding="utf-8")
    assert lockfile.read(str(lock)).settled == summary.settled
    verdict = judge([trace], Budget(), [lockfile.read(str(lock))])
    assert "over" not in {row.verdict for row in verdict.checks}
    unknown = {row.subject: row.why for row in verdict.checks if row.verdict == "unknown"}
    assert set(unknown) == {"# warm", "two  spaces", "two spaces", ""}
    assert unknown["# warm"] == "no step is called # warm; there are step"


def test_a_lock_with_an_endless_number_is_held_against_at_once(tmp_path: Path) -> None:
    path = tmp_path / "run.pftrace"
    generated_trace.write(path, steps=40, compiles=3)
    summary = summarize(coldstep.load(path))
    summary.settled = {"step": 10**15}
    assert judge([coldstep.load(path)], Budget(), [summary]).word == "within"
