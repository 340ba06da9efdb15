"""The harness of `make shows`: its data is whole, and marks go around the lines that they are meant for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from coldstep.model import Interval

BENCHMARKS = Path(__file__).parents[2] / "benchmarks/published"
sys.path.insert(0, str(BENCHMARKS))

import shows  # noqa: E402

PROGRAMS = shows.programs()


def test_every_program_is_pinned_and_has_a_name_of_its_own() -> None:
    assert len({program.name for program in PROGRAMS}) == len(PROGRAMS) >= 18
    for program in PROGRAMS:
        assert len(program.commit) == 40, program.name
        assert program.data == [name for name in program.data if name in shows.DATA]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "published" / "me" / "it"
    folder.mkdir(parents=True)
    (folder / "film.bin").write_bytes(bytes(1 << 16))
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
    plain = shows.run(program, shows.copy(program, repository, folder), folder, None)
    script = shows.copy(program, repository, folder, "step")
    marked = shows.run(program, script, folder, [])
    assert (plain.said, plain.complained) == ("total 11 in …\n", "") == (marked.said, marked.complained)
    assert len(shows.steps_of(marked.trace)["step"].rows) == 5
    unmarked = shows.run(program, shows.copy(program, repository, folder, "annotate"), folder, [])
    begin, end = shows.annotated(folder / shows.TRACE, "step")
    origin = unmarked.trace.origin_ns
    assert origin < begin < end < origin + unmarked.trace.run.wall_ns
    shown = shows.compare(program, plain, unmarked, unmarked, marked)
    assert (shown.inferred, shown.counts) == ("none", "0 / 5")
    assert shown.failures[0] == "0 steps, not 5"


def test_a_program_on_two_releases_is_the_same_or_says_what_is_not(repository: Path, tmp_path: Path) -> None:
    import shows_beside

    program = shows.Program(
        name="it", repository="it", commit="HEAD", script="train.py", step="", folders=["train.py"], marks=[]
    )
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    (mirror / "it").mkdir()
    (mirror / "it/repo").symlink_to(repository)
    found = shows_beside.of(program, sys.executable, mirror, tmp_path / "run")
    assert found == shows_beside.Facts(0, "none", None, [], 0)
    shape = shows_beside.Facts(5, "feedback: step:9", 1, ["shape x f32[8] -> f32[5]"], 7)
    more = shows_beside.Facts(5, "feedback: step:9", 1, ["shape x f32[8] -> f32[5]"], 9)
    other = shows_beside.Facts(5, "feedback: step:9", 1, ["unknown None None -> None"], 7)
    line, same = shows_beside.row(program, shape, more)
    assert same
    assert line.endswith("| 5 / 5 | 1 / 1 | shape x f32[8] -> f32[5] | 7 / 9 | same |")
    assert not shows_beside.row(program, shape, other)[1]
    program.inserts = [(2, "raise OSError('no such thing')")]
    fails = shows_beside.of(program, sys.executable, mirror, tmp_path / "run")
    assert fails == "fails without coldstep, too: OSError: no such thing"
    assert shows_beside.row(program, shape, fails)[1]


def test_words_that_are_not_there_once_are_said(repository: Path, tmp_path: Path) -> None:
    program = shows.Program(
        name="it", repository="me/it", commit="HEAD", script="train.py", step="", folders=["train.py"], marks=[],
        settings=[("train.py", "total", "sum")],
    )  # fmt: skip
    with pytest.raises(shows.ShowError, match=r"train.py has \d+ × 'total'"):  # noqa: RUF001
        shows.copy(program, repository, tmp_path / "run")


def test_of_a_repository_only_what_a_program_needs_is_fetched(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout.strip()

    for allowed in ("allowFilter", "allowAnySHA1InWant"):  # as GitHub does
        git("-C", str(repository), "config", f"uploadpack.{allowed}", "true")
    monkeypatch.setattr(shows, "CACHE", tmp_path / "cache")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", f"url.file://{repository.parent.parent}/.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "https://github.com/")
    program = shows.Program(
        name="it", repository="me/it", commit=git("-C", str(repository), "rev-parse", "HEAD"), script="train.py",
        step="", folders=["train.py"], marks=[],
    )  # fmt: skip
    source = shows.fetched(program, None)
    script = shows.copy(program, source, tmp_path / "run")
    assert script.read_text() == (repository / "train.py").read_text()
    assert not (tmp_path / "run" / "film.bin").exists()
    held = git("-C", str(source), "cat-file", "--batch-all-objects", "--batch-check=%(objecttype) %(objectsize)")
    assert f"blob {1 << 16}" not in held.splitlines()
    assert f"blob {script.stat().st_size}" in held.splitlines()


@pytest.mark.parametrize(
    ("inferred", "because", "verdict"),
    [
        ((1_000_000, 6_700_000), "", "holds in one run: the first step is +38%; in one run 5.7 / 5.8 ms, -1%, since it "
         "begins 0.1 ms before the lines that are marked and ends 0.2 ms before them"),
        ((0, 6_900_000), "the loader is made in it", "the first step is +38%; in one run 6.9 / 5.8 ms, +19%, since it "
         "begins 1.1 ms before the lines that are marked and ends 0.0 ms after them: the loader is made in it"),
        ((0, 6_900_000), "", ""),
    ],
)  # fmt: skip
def test_first_steps_that_differ_are_held_against_each_other_in_one_run(
    inferred: tuple[int, int], because: str, verdict: str
) -> None:
    program = shows.Program("it", "me/it", "HEAD", "train.py", "", [], [], because=because)
    apart = "the first step is +38%"
    shown = shows.Shown(program, "", "", "", "", "", "", [apart], apart=apart)
    shown.in_one_run(inferred, (1_100_000, 6_880_000))
    assert bool(shown.failures) is not bool(verdict)
    assert shown.verdict == (verdict or "holds")
    assert apart in shown.row()


def test_the_phase_is_named_in_which_first_steps_differ_most() -> None:
    def step(unattributed_ns: int, **phases: int) -> Interval:
        found = {name.replace("_", "."): ns * 1_000_000 for name, ns in phases.items()}
        return Interval(0, 0, "step", 0, "step", "marked", "first", "dispatch", 0, 0, phases=found,
                        unattributed_ns=unattributed_ns * 1_000_000)  # fmt: skip

    of_profiler = step(90, xla_compile=100), step(2, execute=80, xla_compile=150)
    assert shows._most_apart(*of_profiler) == "xla.compile (100 / 150 ms)"
    assert shows._most_apart(step(90), step(2, execute=40)) == "execution or no phase (90 / 42 ms)"
