"""Published programs, run as they are: what coldstep takes for their steps, held against marks put in by a script.

`make shows` fetches each program of shows.toml at its commit, into a folder outside the tree, and runs it four times:
plain, under `coldstep run --no-infer`, under `coldstep run`, and with marks. Nothing of them is kept.
"""

from __future__ import annotations

import argparse
import datetime
import gzip
import io
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import coldstep
from coldstep.model import Interval, Trace

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "coldstep-shows"
TIMEOUT_S = 600
WITHIN = 0.1
"""How much the first step may differ."""
_MORE_RUNS = 2
_OURS = re.compile(r"^(?:coldstep: .*)?\n", re.MULTILINE)
# Google: "I0000 00:00:1795357889.889758    9013 port.cc:153] …"
_LOGGED = re.compile(r"^[VDIWEF]\d{4} [\d:.]+ +\d+", re.MULTILINE)
# coldstep: "step 10 | loss 3.1842 | step time 12.52ms"
_TIMES = re.compile(r"\d+(?:\.\d+)?(?:e-?\d+)? ?(?:ms|µs|us|s|sec|secs|seconds|it/s)\b(?:/\w+)?|\d+:\d\d(?::\d\d)?")


class ShowError(Exception):
    """A program cannot be shown; the text says why."""


@dataclass(slots=True)
class Program:
    """A published program, and what a person calls its step."""

    name: str
    repository: str
    """owner/name, on GitHub."""
    commit: str
    script: str
    """Its path; of a notebook, the cells of code are run."""
    step: str
    """What a person calls a step."""
    marks: list[tuple[int, int, str]]
    """First and last line of what is a step, as published, and its name; none where it is a library that loops."""
    folders: list[str]
    """What of the repository it needs."""
    steps: int = 0
    """How many steps it has, by its settings, where no mark can be put around one."""
    marked: str = ""
    """The file in which the marks go; the script without."""
    arguments: list[str] = field(default_factory=list)
    settings: list[tuple[str, str, str]] = field(default_factory=list)
    """File, words, and the shorter run's words in their place: each stands there once."""
    inserts: list[tuple[int, str]] = field(default_factory=list)
    """A line of the script, and what is put before it: a seed, `torch.compile`."""
    data: list[str] = field(default_factory=list)
    """What is made up in the place of a download: the names of functions below."""
    environment: dict[str, str] = field(default_factory=dict)
    volatile: list[str] = field(default_factory=list)
    """Expressions for what a program prints that differs from run to run."""
    because: str = ""
    """Why what was inferred differs from the marks, where it rightly does."""


@dataclass(slots=True)
class Ran:
    """One run: what it printed, without the times and coldstep's own lines, and its trace."""

    said: str
    complained: str
    trace: Trace | None = None
    firsts: list[int] = field(default_factory=list)
    """How long the first step took, in nanoseconds, of its commonest kind of step: in this run, and in more of it."""

    @property
    def compiles(self) -> int:
        return len(self.trace.compiles) if self.trace else 0

    @property
    def breaks(self) -> int:
        return sum(row.count for row in self.trace.graph_breaks) if self.trace else 0


@dataclass(slots=True)
class Steps:
    """The steps of one name."""

    rows: list[Interval]
    settled: int | None

    @property
    def first_ns(self) -> int:
        return self.rows[0].wall_ns if self.rows else 0


# --- fetching -----------------------------------------------------------------------------------------------------


def fetched(program: Program, mirror: Path | None) -> Path:
    """A clone that has the repository at the program's commit: in the cache, or of the mirror's."""
    if mirror is not None:
        return mirror / program.repository.replace("/", "+") / "repo"
    folder = CACHE / program.repository.replace("/", "+") / program.commit
    if not (folder / "FETCH_HEAD").exists():
        source = f"https://github.com/{program.repository}"
        _git("init", "-q", "--bare", str(folder))
        _git("-C", str(folder), "fetch", "-q", "--depth", "1", source, program.commit)
    return folder


def _git(*arguments: str) -> bytes:
    done = subprocess.run(["git", *arguments], capture_output=True)
    if done.returncode:
        raise ShowError(f"git {arguments}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def copy(program: Program, source: Path, folder: Path, marked: bool) -> Path:
    """The program with its settings in `folder`, and marks where they are asked for; the script's path there."""
    shutil.rmtree(folder, ignore_errors=True)
    packed = _git("-C", str(source), "archive", program.commit, "--", *program.folders)
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    script = folder / program.script
    if script.suffix == ".ipynb":
        text = "\n\n".join(_cells(json.loads(script.read_text())))
        script = script.with_suffix(".py")
        script.write_text(f"{text}\n")
    for file, words, shorter in program.settings:
        path = folder / file if file != program.script else script
        text = path.read_text()
        if text.count(words) != 1:
            raise ShowError(f"{file} has {text.count(words)} × {words!r}")  # noqa: RUF001
        path.write_text(text.replace(words, shorter.format(folder=folder)))
    edits = [(script, line, line - 1, text) for line, text in program.inserts]
    if marked:
        edits += [(folder / program.marked if program.marked else script, *mark) for mark in program.marks]
    for path in {path for path, *_ in edits}:
        _edit(path, [(first, last, words) for file, first, last, words in edits if file == path])
    for name in program.data:
        DATA[name](folder)
    return script


def _edit(path: Path, edits: list[tuple[int, int, str]]) -> None:
    """Put words before a line, or a mark of that name around the lines from the first to the last."""
    lines = path.read_text().splitlines()
    for first, last, words in sorted(edits, reverse=True):
        indent = lines[first - 1][: len(lines[first - 1]) - len(lines[first - 1].lstrip())]
        if last < first:
            lines.insert(first - 1, indent + words)
            continue
        inner = [f"    {line}" if line.strip() else line for line in lines[first - 1 : last]]
        lines[first - 1 : last] = [f'{indent}with __import__("coldstep").step({words!r}):', *inner]
    path.write_text("\n".join(lines) + "\n")


def _cells(notebook: dict[str, list[dict[str, object]]]) -> Iterator[str]:
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code" and isinstance(source := cell["source"], list):
            yield "\n".join(line for line in "".join(source).splitlines() if not line.startswith(("%", "!")))


# --- data that is made up -----------------------------------------------------------------------------------------


def mnist_files(folder: Path, images: int = 1000) -> None:
    """MNIST's four files, as jax/examples and torchvision read them."""
    for base in (folder / "mnist", folder / "data" / "MNIST" / "raw"):
        base.mkdir(parents=True, exist_ok=True)
        for name, count in (("train", images), ("t10k", images // 4)):
            pixels = bytes((i * 7 + i // 784) % 256 for i in range(count * 784))
            labels = bytes(i % 10 for i in range(count))
            contents = {
                f"{name}-images-idx3-ubyte": struct.pack(">IIII", 2051, count, 28, 28) + pixels,
                f"{name}-labels-idx1-ubyte": struct.pack(">II", 2049, count) + labels,
            }
            for file, content in contents.items():
                (base / file).write_bytes(content)
                (base / f"{file}.gz").write_bytes(gzip.compress(content, 1))


def mnist_npz(folder: Path) -> None:
    """MNIST as Keras keeps it below KERAS_HOME."""
    import numpy as np

    made = np.random.default_rng(0)
    (folder / "datasets").mkdir(parents=True, exist_ok=True)
    images = {f"x_{part}": made.integers(0, 255, (count, 28, 28), np.uint8) for part, count in _PARTS.items()}
    labels = {f"y_{part}": made.integers(0, 10, count, np.uint8) for part, count in _PARTS.items()}
    np.savez(folder / "datasets" / "mnist.npz", **images, **labels)


def words(folder: Path) -> None:
    """Text: as names, a word a line; as a corpus of three files; and as one file, under two names."""
    said = [f"{a}{b}{c}" for a in "bcdfgklm" for b in "aeiou" for c in ("n", "r", "st", "la")]
    (folder / "names.txt").write_text("\n".join(said * 8) + "\n")
    (folder / "corpus").mkdir(parents=True, exist_ok=True)
    lines = [" ".join(said[i % 60 : i % 60 + 12]) for i in range(400)]
    (folder / "data").mkdir(exist_ok=True)
    (folder / "data" / "wikitext-2.txt").write_text("\n".join(lines))
    for name, count in (("train", 400), ("valid", 80), ("test", 80)):
        (folder / "corpus" / f"{name}.txt").write_text("\n".join(lines[:count]) + "\n")
    (folder / "text.txt").write_text("\n".join(lines))


def tokens(folder: Path) -> None:
    """nanoGPT's two files of tokens."""
    (folder / "data" / "made_up").mkdir(parents=True, exist_ok=True)
    for name in ("train", "val"):
        (folder / "data" / "made_up" / f"{name}.bin").write_bytes(
            struct.pack("<4096H", *(i * 7 % 61 for i in range(4096)))
        )


_PARTS = {"train": 1000, "test": 200}
DATA: dict[str, Callable[[Path], None]] = {
    "mnist_files": mnist_files, "mnist_npz": mnist_npz, "words": words, "tokens": tokens
}  # fmt: skip


# --- running ------------------------------------------------------------------------------------------------------


def run(program: Program, script: Path, folder: Path, coldstep_: list[str] | None) -> Ran:
    """Run the script in `folder`, plain or with the arguments of `coldstep run`."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    fixed = {"MPLBACKEND": "Agg", "JAX_PLATFORMS": "cpu", "PYTHONHASHSEED": "0", "KERAS_HOME": str(folder)}
    fixed |= {"PYTHONPATH": str(folder), "TMPDIR": str(home), "TORCHINDUCTOR_CACHE_DIR": str(home / "inductor")}
    arguments = [text.format(folder=folder) for text in program.arguments]
    trace = folder / "run.pftrace"
    command = [sys.executable, str(script), *arguments]
    if coldstep_ is not None:
        command = [sys.executable, "-m", "coldstep", "run", "-o", str(trace), "--no-live", *coldstep_, *command[1:]]
    done = subprocess.run(
        command, cwd=folder, env=os.environ | fixed | program.environment, capture_output=True, text=True,
        timeout=TIMEOUT_S, errors="replace",
    )  # fmt: skip
    if done.returncode:
        raise ShowError(f"it ended with {done.returncode}: {done.stderr.strip()[-2000:]}")
    said, complained = (_lasting(program, text) for text in (done.stdout, done.stderr))
    if coldstep_ is None:
        return Ran(said, complained)
    loaded = coldstep.load(trace)
    return Ran(said, complained, loaded, [_most(steps_of(loaded)).first_ns])


def _lasting(program: Program, text: str) -> str:
    """What a run printed, as the next one would print it."""
    text = _OURS.sub("", text)
    for words_ in program.volatile:
        text = re.sub(words_, "…", text)
    return _TIMES.sub("…", _LOGGED.sub("…", text))


def steps_of(trace: Trace, name: str | None = None) -> dict[str, Steps]:
    """The steps of each name."""
    found: dict[str, Steps] = {}
    for row in trace.intervals:
        if row.kind == "step" and (name is None or row.name == name):
            found.setdefault(row.name or "", Steps([], None)).rows.append(row)
    for settling in trace.settling:
        if settling.name in found and settling.by == "step":
            found[settling.name].settled = settling.settled_at_step
    return found


# --- what is said -------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Shown:
    """A row of the table."""

    program: Program
    inferred: str
    counts: str
    firsts: str
    settled: str
    compiles: str
    said: str
    failures: list[str]
    is_apart: bool
    """Whether the first steps differ by more than they may."""

    def row(self) -> str:
        verdict = "holds" if not self.failures else self.program.because or "; ".join(self.failures)
        link = f"https://github.com/{self.program.repository}/blob/{self.program.commit}/{self.program.script}"
        cells = [f"[{self.program.name}]({link})", self.program.step, self.inferred, self.counts, self.firsts]
        return f"| {' | '.join([*cells, self.settled, self.compiles, self.said, verdict])} |"


def show(program: Program, mirror: Path | None, work: Path) -> Shown:
    """Run a program in its four forms, in three where no mark can be put in, and compare them."""
    source = fetched(program, mirror)
    forms: dict[str, list[str] | None] = {"plain": None, "without": ["--no-infer"], "inferred": [], "marked": []}
    ran = {}
    for form, arguments in forms.items():
        if form != "marked" or program.marks:
            script = copy(program, source, work, marked=form == "marked")  # in one place, for programs print it
            ran[form] = run(program, script, work, arguments)
    shown = compare(program, ran["plain"], ran["without"], ran["inferred"], ran.get("marked"))
    for _ in range(_MORE_RUNS):
        if not shown.is_apart:
            break
        for form in ("inferred", "marked"):
            again = run(program, copy(program, source, work, marked=form == "marked"), work, [])
            ran[form].firsts += again.firsts
        shown = compare(program, ran["plain"], ran["without"], ran["inferred"], ran["marked"])
    return shown


def compare(program: Program, plain: Ran, without: Ran, inferred: Ran, marked: Ran | None) -> Shown:
    """Hold what was inferred against the marks, and the run under coldstep against the run without; without marks, only
    how many steps there are."""
    assert inferred.trace is not None
    found = steps_of(inferred.trace)
    main = _most(found)
    failures = []
    first = min(inferred.firsts)
    apart = 0.0
    if marked is not None:
        assert marked.trace is not None
        mine = next(iter(steps_of(marked.trace, program.marks[0][2]).values()), Steps([], None))
        expected, by_hand = len(mine.rows), min(marked.firsts)
        apart = first / by_hand - 1 if by_hand else 1.0
        firsts = f"{first / 1e6:.0f} / {by_hand / 1e6:.0f} ms, {apart:+.0%}"
        settled = f"{main.settled} / {mine.settled}"
        if abs(apart) > WITHIN:
            failures.append(f"the first step is {apart:+.0%}")
        if main.settled != mine.settled:
            failures.append(f"settled at {main.settled}, not {mine.settled}")
    else:
        expected, firsts, settled = program.steps, f"{first / 1e6:.0f} ms", str(main.settled)
    if abs(len(main.rows) - expected) > 1:
        failures.insert(0, f"{len(main.rows)} steps, not {expected}")
    if (without.compiles, without.breaks) != (inferred.compiles, inferred.breaks):
        failures.append("other compiles or graph breaks than without")
    same = [plain.said == inferred.said, plain.complained == inferred.complained]
    failures += [f"{what} differs" for what, is_same in zip(("stdout", "stderr"), same, strict=True) if not is_same]
    by = main.rows[0].inferred_by if main.rows else None
    at = f" at {Path(by.location.file).name}:{by.location.line}" if by and by.location else ""
    others = ", ".join(f"{name} {len(steps.rows)}" for name, steps in found.items() if steps is not main)
    return Shown(
        program,
        f"{by.rule}: {by.of}{at}{f'; also {others}' if others else ''}" if by else "none",
        f"{len(main.rows)} / {expected}",
        firsts,
        settled,
        f"{inferred.compiles}, {inferred.breaks} / {without.compiles}, {without.breaks}",
        " ".join("same" if is_same else "differs" for is_same in same),
        failures,
        abs(apart) > WITHIN and bool(main.rows),
    )


def _most(found: dict[str, Steps]) -> Steps:
    """The steps that train: an evaluation may have more."""
    train = [steps for name, steps in found.items() if name.startswith("step")]
    return max(train or found.values(), key=lambda steps: len(steps.rows), default=Steps([], None))


_HEAD = """\
# Published programs, run as they are

`make shows` at {commit}, {date}, {cores} cores at a load of {load:.0f}. Each program is fetched at the commit behind
its name, shortened by the settings in [shows.toml](../benchmarks/shows.toml), which says where its data is made up, and
run plain, under `coldstep run --no-infer`, under `coldstep run`, and with `coldstep.step()` put in by a script around
the lines that a person would call a step. In the columns: what was inferred / what the marks give; of compiles and
graph breaks, with / without the hooks that see steps. It *holds* where the number of steps is the same but for one, the
first step's time within 10 %, and the settled step, compiles, graph breaks, stdout and stderr the same. Where the first
steps are farther apart, both forms run twice more, and the shortest of each counts. Where a library loops, no mark can
be put in: the number of steps is held against that which the settings make.

| program | a person's step | inferred | steps | first step | settled | compiles, breaks | out, err | |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""


def main() -> int:
    """Run all programs, or those named, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="programs of shows.toml; all of them without")
    parser.add_argument("--mirror", type=Path, help="a folder of clones, owner+name/repo, in the place of GitHub")
    parser.add_argument("--work", type=Path, default=CACHE / "work", help="where the programs run")
    parser.add_argument("--output", type=Path, help="write the table here")
    given = parser.parse_args()
    programs = [Program(**row) for row in tomllib.loads((HERE / "shows.toml").read_text())["program"]]
    rows, failed = [], 0
    for program in programs:
        if given.names and program.name not in given.names:
            continue
        try:
            shown = show(program, given.mirror, given.work / program.name)
            rows.append(shown.row())
            failed += bool(shown.failures)
        except (ShowError, subprocess.TimeoutExpired) as error:
            rows.append(f"| {program.name} | {program.step} | did not run: {str(error)[:300]!r} | | | | | | |")
            failed += 1
        print(rows[-1], flush=True)
    if given.output:
        commit = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=HERE, capture_output=True, text=True
        ).stdout
        head = _HEAD.format(
            commit=commit.strip(), date=datetime.date.today(), cores=os.cpu_count(), load=os.getloadavg()[2]
        )
        given.output.write_text(head + "\n".join(rows) + "\n")
    return failed


if __name__ == "__main__":
    sys.exit(main() > 0)
