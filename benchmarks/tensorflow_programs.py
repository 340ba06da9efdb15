"""Ordinary programs of TensorFlow's, run unchanged: what coldstep says of each, held against what a person would.

    .venv/bin/python benchmarks/tensorflow_programs.py [NAME…] [--output docs/tensorflow.md]

The programs in benchmarks/ordinary know nothing of coldstep. EXPECTED has, for each, the recompiles that somebody who
reads it foresees, and the functions whose first call makes variables. The exit code is 1 where the report says others.
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

import pages

import coldstep
from coldstep.model import Trace

HERE = Path(__file__).parent
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
}


def run(program: Path, folder: Path) -> tuple[Trace, str]:
    """The trace of the program, and the report on it."""
    shutil.copy(program, folder)
    trace = folder / f"{program.stem}.pftrace"
    coldstep_ = [sys.executable, "-m", "coldstep"]
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "COLUMNS": "100"}
    subprocess.run(
        [*coldstep_, "run", "--no-live", "-o", trace.name, program.name],
        cwd=folder, env=os.environ | quiet, capture_output=True, timeout=TIMEOUT_S, check=True,
    )  # fmt: skip
    told = subprocess.run([*coldstep_, "report", trace.name], cwd=folder, capture_output=True, text=True, check=True)
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
    about = re.match('"""(.*?)"""', (HERE / "ordinary" / f"{name}.py").read_text(), re.DOTALL)
    assert about is not None
    compiled = [row for row in trace.cost if row.first_step and trace.intervals[row.first_step.interval].compiles]
    firsts = ", ".join(f"{row.name} {row.first_step.attributed_share:.1%}" for row in compiled)
    verdict = "; ".join(wrong) or "as expected"
    sections = re.findall(r"^(?:Steps|Recompiles \(\d+\)|What else was found)\n.*?(?=\n\n\S|\Z)", report, re.M | re.S)
    told = _LIBRARIES.sub("", "\n\n".join(sections))
    link = f"[{name}](../benchmarks/ordinary/{name}.py)"
    lines = [f"### {link}", about[1], textwrap.fill(EXPECTED[name].useful, 120)]
    return "\n\n".join([*lines, f"Recompiles and second traces: {verdict}. Of first steps has a name: {firsts}.",
                        f"```text\n{told}\n```"])  # fmt: skip


_ABOUT = """\
`benchmarks/tensorflow_programs.py` {made}. None of these programs knows of coldstep; each ran under
`coldstep run`, without marks. Below is what the report says of steps, recompiles and anything else.

{parts}
"""


def main() -> int:
    """Run all programs, or those named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*EXPECTED, []], help="programs; all of them without")
    parser.add_argument("--output", type=Path, help="write what all of them gave to this page")
    options = parser.parse_args()
    made, parts, failed = pages.made(), [], False
    with tempfile.TemporaryDirectory() as name:
        for program in options.names or EXPECTED:
            trace, report = run(HERE / "ordinary" / f"{program}.py", Path(name).resolve())
            wrong = complaints(trace, EXPECTED[program])
            failed |= bool(wrong)
            parts.append(part(program, report, wrong, trace))
            print(f"{program}: {'; '.join(wrong) or 'as expected'}", flush=True)
    if options.output is not None:
        pages.write(options.output, "Five ordinary programs", _ABOUT.format(made=made, parts="\n\n".join(parts)))
    return failed


if __name__ == "__main__":
    sys.exit(main())
