"""Programs of TensorFlow's, run unchanged: what coldstep says of each, held against what a person would.

    .venv-shows/bin/python benchmarks/tensorflow_programs.py [NAME…] [--mirror FOLDER] [--output PAGE]

Those in benchmarks/ordinary were written for this, and know nothing of coldstep; the others are published ones of
shows.toml, which says at which commit, and how they are shortened. EXPECTED has, for each, the recompiles that somebody
who reads it foresees, and the functions whose first call makes variables. The exit code is 1 where the report says
others.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "published"))

import pages
import shows

import coldstep
from coldstep.model import Trace

ORDINARY = Path(__file__).parent / "ordinary"
TIMEOUT_S = 600
_LIBRARIES = re.compile(r"/\S+?/site-packages/\s*")


@dataclass(slots=True)
class Expected:
    """What a report is to say."""

    recompiles: set[tuple[str, str, str]]
    """Function, cause and argument of each kind of recompile."""
    twice: set[str]
    """Functions that are traced twice in their first call."""
    useful: str
    """What a person learns from it."""


EXPECTED = {
    "ragged_fit": Expected(
        {("Sequential.predict", "shape", "data[0][0]")},
        {"Sequential.fit"},
        "The last batch costs `fit` and `evaluate` nothing, for their batches come from an iterator of open sizes; "
        "`predict` takes them out of it, and is traced once more.",
    ),
    "gan": Expected(
        {("train_discriminator", "shape", "real"), ("train_generator", "python_scalar", "batch_size")},
        {"train_discriminator", "train_generator"},
        "One smaller batch compiles both networks again, for two reasons with two cures: a shape, and a Python number.",
    ),
    "reinforce": Expected(
        {("act", "python_scalar", "explore"), ("learn", "shape", "states")},
        {"act", "learn"},
        "Each episode has another length, and each value of `explore` is compiled in: the program never settles.",
    ),
    "growing_text": Expected(
        {("train_step", "shape", "tokens"), ("next_word", "shape", "tokens")},
        {"train_step"},
        "Sorting by length leaves one trace for each length, and so does writing word by word.",
    ),
    "saved_model": Expected(
        {("__call__", "shape", "args_0")},
        {"Sequential.fit"},
        "The saved function takes any size; wrapped for XLA it is compiled for each, in the first request that has it.",
    ),
    "TensorFlow's quickstart": Expected(
        {("train_step", "shape", "images"), ("test_step", "shape", "images")},
        {"train_step"},
        "The last batch of an epoch is smaller, and so is that of the test: both functions are traced once more for "
        "it, in the middle of the training.",
    ),
    "TensorFlow's DCGAN": Expected(
        {("train_step", "shape", "images")},
        {"train_step"},
        "One function trains both networks, so the smaller last batch traces and optimises both again.",
    ),
    "TensorFlow's actor-critic": Expected(
        set(),
        {"train_step"},
        "An episode may last as long as it likes: its loop is one of the graph's, and nothing is traced for a length.",
    ),
    "TensorFlow's text classification": Expected(
        set(),
        {"Sequential.fit", "Sequential.evaluate"},
        "The last batch costs nothing. The model that is made for serving is evaluated with a metric by name, whose "
        "variables its first call makes: it is traced twice for these.",
    ),
    "TensorFlow Text's translation": Expected(
        set(),
        {"Translator.fit", "Translator.evaluate"},
        "Each batch has other lengths, and all share one trace, for the data set leaves them open.",
    ),
    "TensorFlow Text's text generation": Expected(
        {
            ("OneStep.generate_one_step", "type", "states"),
            ("OneStep.generate_one_step", "shape", "inputs"),
            ("generate_one_step", "type", "states"),
            ("CustomTraining.train_step", "pytree", "inputs"),
        },
        {"MyModel.fit", "CustomTraining.fit"},
        "Each kind of prompt is compiled twice: with no state, and with one; so is the saved model. `fit` hands the "
        "step a tuple and the loop below it a list, which costs one more trace of the training step.",
    ),
    "keras custom loop, TensorFlow": Expected(
        set(),
        {"train_step"},
        "Compiled for XLA once, for all batches have one shape; but traced twice, as the first call builds the layers.",
    ),
}
PUBLISHED = {program.name: program for program in shows.programs() if program.name in EXPECTED}


def run(name: str, folder: Path, mirror: Path | None) -> tuple[Trace, str]:
    """The trace of the program, and the report on it."""
    coldstep_ = [sys.executable, "-m", "coldstep"]
    quiet = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "COLUMNS": "100"}
    if name in PUBLISHED:
        program = PUBLISHED[name]
        shows.run(program, shows.copy(program, shows.fetched(program, mirror), folder), folder, [])
        trace = folder / shows.TRACE
    else:
        folder.mkdir()
        shutil.copy(ORDINARY / f"{name}.py", folder)
        trace = folder / f"{name}.pftrace"
        subprocess.run(
            [*coldstep_, "run", "--no-live", "-o", trace.name, f"{name}.py"],
            cwd=folder, env=quiet, capture_output=True, timeout=TIMEOUT_S, check=True,
        )  # fmt: skip
    told = subprocess.run(
        [*coldstep_, "report", "--all", trace.name], cwd=folder, env=quiet, capture_output=True, text=True, check=True
    )
    return coldstep.load(trace), told.stdout


def complaints(trace: Trace, expected: Expected) -> list[str]:
    """What the report says and should not, and the other way about."""
    functions = {row.id: row.function for row in trace.compiles}
    said = {(functions[row.compile], row.cause, row.argument or "-") for row in trace.recompiles}
    twice = {row.text.partition(" was traced twice")[0] for row in trace.findings if row.kind == "second_trace"}
    found = [f"not told: {each}" for each in sorted(map(str, expected.recompiles - said | expected.twice - twice))]
    return found + [f"told: {each}" for each in sorted(map(str, said - expected.recompiles | twice - expected.twice))]


def part(name: str, report: str, wrong: list[str], trace: Trace) -> str:
    """The program's part of the page: its own words, the first steps' share that has a name, and the report."""
    if name in PUBLISHED:
        program = PUBLISHED[name]
        link, about = f"[{name}]({program.link})", f"A step is {program.step}."
    else:
        said = re.match('"""(.*?)"""', (ORDINARY / f"{name}.py").read_text(), re.DOTALL)
        assert said is not None
        link, about = f"[{name}](../../benchmarks/ordinary/{name}.py)", said[1]
    compiled = [row for row in trace.cost if row.first_step and trace.intervals[row.first_step.interval].compiles]
    firsts = ", ".join(f"{row.name} {row.first_step.attributed_share:.1%}" for row in compiled)
    verdict = "; ".join(wrong) or "as expected"
    sections = re.findall(r"^(?:Steps|Recompiles \(\d+\)|What else was found)\n.*?(?=\n\n\S|\Z)", report, re.M | re.S)
    told = _LIBRARIES.sub("", "\n\n".join(sections))
    lines = [f"### {link}", about, textwrap.fill(EXPECTED[name].useful, 120)]
    return "\n\n".join([*lines, f"Recompiles and second traces: {verdict}. Of first steps has a name: {firsts}.",
                        f"<details><summary>{name}</summary>\n{told}\n</details>"])  # fmt: skip


_ABOUT = """\
`benchmarks/tensorflow_programs.py` {made}. {whose}; each ran under
`coldstep run`, without marks. What each report says of steps, recompiles and
anything else is in [tensorflow.json](tensorflow.json).

{parts}
"""
_SECTIONS = {
    "Five ordinary programs": "None of these programs knows of coldstep",
    "Published programs": "These are at a commit of their repositories, shortened as "
    "[shows.toml](../../benchmarks/published/shows.toml) says",
}


def main() -> int:
    """Run all programs, or those named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*EXPECTED, []], help="programs; all of them without")
    parser.add_argument("--mirror", type=Path, help="a folder of clones, owner+name/repo, in the place of GitHub")
    parser.add_argument("--output", type=Path, help="write what all of them gave to this page")
    options = parser.parse_args()
    made, failed = pages.made(), False
    parts: dict[str, list[str]] = {section: [] for section in _SECTIONS}
    ordinary, published = parts.values()
    with tempfile.TemporaryDirectory() as name:
        for number, program in enumerate(options.names or EXPECTED):
            trace, report = run(program, Path(name).resolve() / str(number), options.mirror)
            wrong = complaints(trace, EXPECTED[program])
            failed |= bool(wrong)
            into = published if program in PUBLISHED else ordinary
            into.append(part(program, report, wrong, trace))
            print(f"{program}: {'; '.join(wrong) or 'as expected'}", flush=True)
    if options.output is not None:
        for section, whose in _SECTIONS.items():
            if parts[section]:
                text = _ABOUT.format(made=made, whose=whose, parts="\n\n".join(parts[section]))
                pages.write(options.output, section, pages.set_apart(options.output, section, text))
    return failed


if __name__ == "__main__":
    sys.exit(main())
