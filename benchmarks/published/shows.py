"""Published programs, run as they are: what coldstep takes for their steps, held against marks put in by a script.

`make shows` fetches each program of shows.toml at its commit, into a folder outside the tree, and runs it four times:
plain, under `coldstep run --no-infer`, under `coldstep run`, and with marks. Where the first step then differs, one
more run has both, the inferred step and an annotation around the lines that were marked. Nothing of them is kept.
"""

from __future__ import annotations

import argparse
import datetime
import gzip
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import coldstep
from coldstep.model import Interval, Trace
from coldstep.pftrace import proto, reader

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "coldstep-shows"
TIMEOUT_S = 600
TRACE = "run.pftrace"
WITHIN = 0.1
"""How much the first step may differ."""
_MORE_RUNS = 2
_MARK = {"marked": "step"}
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
    """Why the inferred first step begins or ends elsewhere than the marks, where it rightly does."""

    @property
    def link(self) -> str:
        """Where it is published."""
        return f"https://github.com/{self.repository}/blob/{self.commit}/{self.script}"


Span = tuple[int, int]


@dataclass(slots=True)
class Ran:
    """One run: what it printed, without the times and coldstep's own lines, and its trace."""

    said: str
    complained: str
    trace: Trace | None = None
    firsts: list[Interval] = field(default_factory=list)
    """The first step of its commonest kind of step, where it has one: in this run, and in more of it."""

    @property
    def first(self) -> Interval | None:
        """The shortest of them."""
        return min(self.firsts, key=lambda row: row.wall_ns, default=None)

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


def programs() -> list[Program]:
    """Those of shows.toml."""
    return [Program(**row) for row in tomllib.loads((HERE / "shows.toml").read_text())["program"]]


# --- fetching -----------------------------------------------------------------------------------------------------


def fetched(program: Program, mirror: Path | None) -> Path:
    """A clone that has the repository at the program's commit: in the cache, or of the mirror's."""
    if mirror is not None:
        return mirror / program.repository.replace("/", "+") / "repo"
    folder = CACHE / program.repository.replace("/", "+") / program.commit
    if not (folder / "FETCH_HEAD").exists():
        _git("init", "-q", "--bare", str(folder))
        _git("-C", str(folder), "config", "remote.origin.url", f"https://github.com/{program.repository}")
        # no file yet, for a repository may have gigabytes of them: git fetches those that are copied
        _git("-C", str(folder), "fetch", "-q", "--depth", "1", "--filter=blob:none", "origin", program.commit)
    return folder


def _git(*arguments: str) -> bytes:
    done = subprocess.run(["git", *arguments], capture_output=True)
    if done.returncode:
        raise ShowError(f"git {arguments}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def copy(program: Program, source: Path, folder: Path, mark: str | None = None) -> Path:
    """The program with its settings in `folder`, and with `coldstep.step` or `coldstep.annotate` around what is a step,
    where that is asked for; the script's path there."""
    shutil.rmtree(folder, ignore_errors=True)
    # the repository's own attributes would have git fetch all of its files
    packed = _git("-C", str(source), "archive", "--worktree-attributes", program.commit, "--", *program.folders)
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=packed, check=True)  # tarfile is safe from Python 3.11.4 on
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
    if mark is not None:
        for first, last, name in program.marks:
            words = f'with __import__("coldstep").{mark}({name!r}):'
            edits.append((folder / program.marked if program.marked else script, first, last, words))
    for path in {path for path, *_ in edits}:
        _edit(path, [(first, last, words) for file, first, last, words in edits if file == path])
    for name in program.data:
        DATA[name](folder)
    return script


def _edit(path: Path, edits: list[tuple[int, int, str]]) -> None:
    """Put words before a line, or such a block around the lines from the first to the last."""
    lines = path.read_text().splitlines()
    for first, last, words in sorted(edits, reverse=True):
        indent = lines[first - 1][: len(lines[first - 1]) - len(lines[first - 1].lstrip())]
        if last < first:
            lines.insert(first - 1, indent + words)
            continue
        inner = [f"    {line}" if line.strip() else line for line in lines[first - 1 : last]]
        lines[first - 1 : last] = [indent + words, *inner]
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


def instructions(folder: Path) -> None:
    """A tokenizer of a word a token, as Hugging Face keeps one, and Alpaca's instructions."""
    known = {text: at for at, text in enumerate(["?", "<s>", "</s>", "[PAD]", *(f"word{n}" for n in range(40))])}
    made = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None}
    made |= {"pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None}
    special = {"unk_token": "?", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "[PAD]"}
    (folder / "model").mkdir(exist_ok=True)
    for name, content in (
        ("tokenizer.json", made | {"model": {"type": "WordLevel", "vocab": known, "unk_token": "?"}}),
        ("tokenizer_config.json", special | {"tokenizer_class": "PreTrainedTokenizerFast"}),
        ("config.json", {"model_type": "gpt2"}),
        ("tasks.json", [{"instruction": f"word{n % 40}", "output": "word1 " * 20} for n in range(96)]),
    ):
        (folder / "model" / name).write_text(json.dumps(content))


def reviews(folder: Path) -> None:
    """The Large Movie Review Dataset's folders: a file a review, by whether it is good."""
    for part, kinds, count in (("train", ("pos", "neg", "unsup"), 130), ("test", ("pos", "neg"), 50)):
        for kind in kinds:
            into = folder / "aclImdb_v1" / "aclImdb" / part / kind
            into.mkdir(parents=True, exist_ok=True)
            for n in range(count):
                text = " ".join(f"word{(n * 37 + at * 11) % 1500} {kind}" for at in range(20 + n % 30))
                (into / f"{1181 + n}_9.txt").write_text(f"{text}. It was a film.")


def translations(folder: Path) -> None:
    """Pairs of sentences of many lengths, a pair a line."""
    (folder / "spa-eng").mkdir(exist_ok=True)
    lines = [
        [" ".join(f"{word}{(n * 7 + at) % 50}" for at in range(2 + n % 9)) for word in ("w", "p")] for n in range(600)
    ]
    (folder / "spa-eng" / "spa.txt").write_text("\n".join(f"{one}.\t{other}." for one, other in lines))


_PARTS = {"train": 1000, "test": 200}
DATA: dict[str, Callable[[Path], None]] = {
    "mnist_files": mnist_files, "mnist_npz": mnist_npz, "words": words, "tokens": tokens, "instructions": instructions,
    "reviews": reviews, "translations": translations,
}  # fmt: skip


# --- running ------------------------------------------------------------------------------------------------------


def run(program: Program, script: Path, folder: Path, coldstep_: list[str] | None, python: str = sys.executable) -> Ran:
    """Run the script in `folder`, plain or with the arguments of `coldstep run`."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    fixed = {"MPLBACKEND": "Agg", "JAX_PLATFORMS": "cpu", "PYTHONHASHSEED": "0", "KERAS_HOME": str(folder)}
    fixed |= {"PYTHONPATH": str(folder), "TMPDIR": str(home), "TORCHINDUCTOR_CACHE_DIR": str(home / "inductor")}
    arguments = [text.format(folder=folder) for text in program.arguments]
    trace = folder / TRACE
    command = [python, str(script), *arguments]
    if coldstep_ is not None:
        command = [python, "-m", "coldstep", "run", "-o", str(trace), "--no-live", *coldstep_, *command[1:]]
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
    return Ran(said, complained, loaded, _most(steps_of(loaded)).rows[:1])


def _lasting(program: Program, text: str) -> str:
    """What a run printed, as the next one would print it."""
    text = _OURS.sub("", text)
    for words_ in program.volatile:
        text = re.sub(words_, "…", text)
    return _TIMES.sub("…", _LOGGED.sub("…", text))


def annotated(path: Path, name: str) -> Span:
    """When the first annotation of that name began and ended: a report does not tell."""
    events = [row for row in reader.rows(path) if isinstance(row, reader.EventRow)]
    begins = (at for at, row in enumerate(events) if row.kind == proto.SLICE_BEGIN and row.name == name)
    if (at := next(begins, None)) is None:
        raise ShowError(f"it came to no annotation {name!r}")
    begin = events[at]
    ends = (row for row in events[at:] if row.kind == proto.SLICE_END and row.track == begin.track)
    return begin.ns, next(ends).ns


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
    verdict: str = "holds"
    """Of what has no failures."""
    apart: str = ""
    """Which of the failures it is that the first steps differ by more than they may."""

    def in_one_run(self, inferred: Span, by_hand: Span) -> None:
        """Say what the first step and the lines that are marked took in one run, where nothing is between them but when
        each begins and ends. Within what they may differ it holds; else it does with a reason."""
        took, lines = (end - start for start, end in (inferred, by_hand))
        sooner, later = by_hand[0] - inferred[0], inferred[1] - by_hand[1]
        self.failures.remove(self.apart)
        said = (
            f"{self.apart}; in one run {_ms(took)} / {_ms(lines)} ms, {took / lines - 1:+.0%}, since it begins "
            f"{_when(sooner, 'before')} the lines that are marked and ends {_when(later, 'after')} them"
        )
        if abs(took / lines - 1) <= WITHIN:
            self.verdict = f"holds in one run: {said}"
        elif self.program.because:
            self.verdict = f"{said}: {self.program.because}"
        else:
            self.failures.append(said)

    def row(self) -> str:
        verdict = "; ".join(self.failures) or self.verdict
        cells = [
            f"[{self.program.name}]({self.program.link})",
            self.program.step,
            self.inferred,
            self.counts,
            self.firsts,
        ]
        return f"| {' | '.join([*cells, self.settled, self.compiles, self.said, verdict])} |"


def show(program: Program, mirror: Path | None, work: Path) -> Shown:
    """Run a program in its four forms, in three where no mark can be put in, and compare them."""
    source = fetched(program, mirror)
    forms: dict[str, list[str] | None] = {"plain": None, "without": ["--no-infer"], "inferred": [], "marked": []}
    ran = {}
    for form, arguments in forms.items():
        if form != "marked" or program.marks:
            script = copy(program, source, work, _MARK.get(form))  # in one place, for programs print it
            ran[form] = run(program, script, work, arguments)
    shown = compare(program, ran["plain"], ran["without"], ran["inferred"], ran.get("marked"))
    for _ in range(_MORE_RUNS):
        if not shown.apart:
            return shown
        for form in ("inferred", "marked"):
            again = run(program, copy(program, source, work, _MARK.get(form)), work, [])
            ran[form].firsts += again.firsts
        shown = compare(program, ran["plain"], ran["without"], ran["inferred"], ran["marked"])
    if shown.apart:
        # without the profilers, which begin and end between two steps as each form has them
        again = run(program, copy(program, source, work, "annotate"), work, ["--device", "off"])
        assert again.trace is not None
        assert again.first is not None
        start = again.trace.origin_ns + again.first.start_ns
        shown.in_one_run((start, start + again.first.wall_ns), annotated(work / TRACE, program.marks[0][2]))
    return shown


def compare(program: Program, plain: Ran, without: Ran, inferred: Ran, marked: Ran | None) -> Shown:
    """Hold what was inferred against the marks, and the run under coldstep against the run without; without marks, only
    how many steps there are."""
    assert inferred.trace is not None
    found = steps_of(inferred.trace)
    main = _most(found)
    failures = []
    first, too_far = inferred.first, ""
    took = first.wall_ns if first is not None else 0
    if marked is not None:
        assert marked.trace is not None
        mine = next(iter(steps_of(marked.trace, program.marks[0][2]).values()), Steps([], None))
        expected, by_hand = len(mine.rows), marked.first
        if by_hand is None:
            raise ShowError("no line that is marked was run")
        apart = took / by_hand.wall_ns - 1
        firsts = f"{_ms(took)} / {_ms(by_hand.wall_ns)} ms, {apart:+.0%}"
        settled = f"{main.settled} / {mine.settled}"
        if abs(apart) > WITHIN:
            too_far = f"the first step is {apart:+.0%}"
            too_far += f", most of it in {_most_apart(first, by_hand)}" if first is not None else ""
            failures.append(too_far)
        if main.settled != mine.settled:
            failures.append(f"settled at {main.settled}, not {mine.settled}")
    else:
        expected, firsts, settled = program.steps, f"{_ms(took)} ms", str(main.settled)
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
        apart=too_far if first is not None else "",
    )


def _when(ns: int, side: str) -> str:
    return f"{_ms(abs(ns))} ms {side if ns >= 0 else {'before': 'after', 'after': 'before'}[side]}"


def _most_apart(one: Interval, other: Interval) -> str:
    """The phase of two steps in which they differ most, and how long it took in each. What runs in no phase is
    execution where a profiler is on, and unattributed elsewhere."""
    rest = "execution or no phase"
    times = [{**row.phases, rest: row.phases.get("execute", 0) + row.unattributed_ns} for row in (one, other)]
    for each in times:
        each.pop("execute", None)
    phase = max(times[0] | times[1], key=lambda name: abs(times[0].get(name, 0) - times[1].get(name, 0)))
    return f"{phase} ({_ms(times[0].get(phase, 0))} / {_ms(times[1].get(phase, 0))} ms)"


def _ms(ns: int) -> str:
    return f"{ns / 1e6:.1f}" if abs(ns) < 20e6 else f"{ns / 1e6:.0f}"


def _most(found: dict[str, Steps]) -> Steps:
    """The steps that train: an evaluation may have more."""
    train = [steps for name, steps in found.items() if name.startswith("step")]
    return max(train or found.values(), key=lambda steps: len(steps.rows), default=Steps([], None))


_HEAD = """\
# Published programs, run as they are

`make shows` at {commit}, {date}, {cores} cores at a load of {load:.0f}. Each program is fetched at the commit behind
its name, shortened by the settings in [shows.toml](../../benchmarks/published/shows.toml), which says where its data is
made up, and run plain, under `coldstep run --no-infer`, under `coldstep run`, and with `coldstep.step()` put in by a
script around the lines that a person would call a step. In the columns: what was inferred / what the marks give; of
compiles and graph breaks, with / without the hooks that see steps. It *holds* where the number of steps is the same but
for one, the first step's time within 10 %, and the settled step, compiles, graph breaks, stdout and stderr the same.
Where the first steps are farther apart, both forms run twice more, and the shortest of each counts; and where they
still are, one run has both, the inferred step and an annotation around the same lines, and says when each began and
ended. (Of an eager PyTorch program the profiler is on in the first step only where that is marked.) Where a library
loops, no mark can be put in: the number of steps is held against that which the settings make.

| program | a person's step | inferred | steps | first step | settled | compiles, breaks | out, err | |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""


_TAIL = """

Of {ran} programs that ran ({others} did not), {held} hold; of {apart} more the first steps of two runs differ, for the
reason that stands there. Of trainers that loop by themselves (Keras' `fit`, Lightning's Trainer, Hugging Face's) there
are no marks to hold the first step against.
"""


def main() -> int:
    """Run all programs, or those named, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="programs of shows.toml; all of them without")
    parser.add_argument("--mirror", type=Path, help="a folder of clones, owner+name/repo, in the place of GitHub")
    parser.add_argument("--work", type=Path, default=CACHE / "work", help="where the programs run")
    parser.add_argument("--output", type=Path, help="write the table here")
    given = parser.parse_args()
    rows, ran = [], []
    for program in programs():
        if given.names and program.name not in given.names:
            continue
        try:
            shown = show(program, given.mirror, given.work / program.name)
            rows.append(shown.row())
            ran.append(shown)
        except (ShowError, subprocess.TimeoutExpired) as error:
            rows.append(f"| {program.name} | {program.step} | did not run: {str(error)[:300]!r} | | | | | | |")
        print(rows[-1], flush=True)
    held = [shown for shown in ran if not shown.failures]
    if given.output:
        commit = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=HERE, capture_output=True, text=True
        ).stdout
        head = _HEAD.format(
            commit=commit.strip(), date=datetime.date.today(), cores=os.cpu_count(), load=os.getloadavg()[2]
        )
        apart = sum(bool(shown.apart) for shown in held)
        tail = _TAIL.format(ran=len(ran), others=len(rows) - len(ran), held=len(held) - apart, apart=apart)
        _, section, rest = (given.output.read_text() if given.output.exists() else "").partition("\n## ")
        given.output.write_text(head + "\n".join(rows) + tail + section + rest)  # what was written by hand stays
    return len(rows) - len(held)


if __name__ == "__main__":
    sys.exit(main() > 0)
