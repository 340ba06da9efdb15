"""The harness of `make shows`: its data is whole, and marks go around the lines that they are meant for."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import shows  # noqa: E402

PROGRAMS = [shows.Program(**row) for row in tomllib.loads((BENCHMARKS / "shows.toml").read_text())["program"]]


def test_every_program_is_pinned_and_has_a_name_of_its_own() -> None:
    assert len({program.name for program in PROGRAMS}) == len(PROGRAMS) >= 18
    for program in PROGRAMS:
        assert len(program.commit) == 40, program.name
        assert program.data == [name for name in program.data if name in shows.DATA]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "published"
    folder.mkdir()
    (folder / "train.py").write_text(
        """\
EPOCHS = 9
total = 0
for i in range(EPOCHS):
    total += (
        i)

    if total > 99:
        break
print("total", total, "in 0.3 s")
"""
    )
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "it"]):
        subprocess.run(["git", "-C", str(folder), *command], check=True)
    return folder


def test_a_program_is_shortened_marked_and_compared(repository: Path, tmp_path: Path) -> None:
    program = shows.Program(
        name="it", repository="me/it", commit="HEAD", script="train.py", step="an addition", folders=["train.py"],
        marks=[(4, 8, "step")], settings=[("train.py", "EPOCHS = 9", "EPOCHS = 5")], inserts=[(9, "total += 1")],
    )  # fmt: skip
    folder = tmp_path / "run"
    plain = shows.run(program, shows.copy(program, repository, folder, marked=False), folder, None)
    script = shows.copy(program, repository, folder, marked=True)
    marked = shows.run(program, script, folder, [])
    assert (plain.said, plain.complained) == ("total 11 in …\n", "") == (marked.said, marked.complained)
    assert len(shows.steps_of(marked.trace)["step"].rows) == 5
    unmarked = shows.run(program, shows.copy(program, repository, folder, marked=False), folder, [])
    shown = shows.compare(program, plain, unmarked, unmarked, marked)
    assert (shown.inferred, shown.counts) == ("none", "0 / 5")
    assert shown.failures[0] == "0 steps, not 5"


def test_words_that_are_not_there_once_are_said(repository: Path, tmp_path: Path) -> None:
    program = shows.Program(
        name="it", repository="me/it", commit="HEAD", script="train.py", step="", folders=["train.py"], marks=[],
        settings=[("train.py", "total", "sum")],
    )  # fmt: skip
    with pytest.raises(shows.ShowError, match=r"train.py has \d+ × 'total'"):  # noqa: RUF001
        shows.copy(program, repository, tmp_path / "run", marked=False)
