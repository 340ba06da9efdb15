"""`make engines`: trainers that people use, tiny, under their own launchers, with and without coldstep.

Exit 1 where a traced run trains otherwise, ends otherwise, or is told otherwise than the trainer itself counts.
"""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import coldstep

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
TABLE = ROOT / "docs" / "evidence" / "engines.md"
_HEAD = """\
# Trainers under coldstep

Written by `make engines`: each with a tiny model of random weights and made-up data, on a CPU, run once without
coldstep and once with it, under its own launcher. Steps and compiles are first the trainer's own count (its steps;
Dynamo's counters, or the lines of `jax_log_compiles`), then coldstep's.

| trainer | date | losses equal to the last digit | exit code | steps | compiles of the step | headline |
| --- | --- | --- | --- | --- | --- | --- |
"""
_NOT_RUN = """
Not run: **torchtitan** 0.3.0 (it imports Triton and asks `torch.cpu` for a device's name and memory; with both stood
in, its attention is FlexAttention, which has no backward on a CPU, and with SDPA in its place the run ended in an error
that was not looked into) and **Tunix** 0.1.7 (it installs beside KerasHub; no program of it has been written).
"""


@dataclass(frozen=True, slots=True)
class Engine:
    """A trainer, by its program."""

    distribution: str
    program: str
    python: str
    """Of the environment that has it."""
    function: str
    """What it calls its compiled step, "" where each compiled frame counts."""
    launcher: tuple[str, ...] = ()
    """What starts a command as this trainer's users do; a plain Python process without."""


ENGINES = (
    Engine("trl", "trl_sft.py", ".venv-engines-torch", "", ("accelerate", "launch", "--cpu", "--num_processes", "1")),
    Engine("keras-hub", "kerashub_fit.py", ".venv-engines-jax", "train_step"),
)


def run(engine: Engine, folder: Path, traced: bool) -> tuple[int, dict[str, Any]]:
    """The exit code, and what the program says of itself."""
    bin_ = ROOT / engine.python / "bin"
    program = str(HERE / engine.program)
    inner = ["coldstep", "run", "-o", "run.pftrace", program] if traced else ["python", program]
    launcher = [*engine.launcher, "--no_python"] if engine.launcher else []
    env = os.environ | {"PATH": f"{bin_}:{os.environ['PATH']}", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*launcher, *inner], cwd=folder, env=env, stdout=subprocess.PIPE, text=True, check=False)
    said = [line for line in done.stdout.splitlines() if line.startswith("ENGINE ")]
    return done.returncode, json.loads(said[-1].removeprefix("ENGINE ")) if said else {}


def judge(engine: Engine) -> tuple[str, list[str]]:
    """A row of the table, and what is wrong."""
    with tempfile.TemporaryDirectory(prefix="coldstep-engines-") as name:
        (code, plain), (traced_code, traced) = (run(engine, Path(name), traced) for traced in (False, True))
        trace = coldstep.load(next(Path(name).glob("run*.pftrace")))
    headline = coldstep_headline(trace)
    steps = [row for row in trace.intervals if row.kind == "step"]
    made = [row for row in trace.compiles if row.outcome in ("compiled", "cache_hit", "skipped")]
    compiles = [row for row in made if row.origin == "user" and engine.function in row.function]
    wrong = list(
        wrongs(
            {
                "losses differ": (plain.get("losses") or None) == traced.get("losses"),
                "exit codes differ": (code, traced_code) == (0, 0),
                "steps differ": len(steps) == traced.get("steps"),
                "compiles differ": len(compiles) == traced.get("compiles"),
                "an absence is claimed": not (compiles and "nothing compiled" in headline),
            }
        )
    )
    row = [
        f"{engine.distribution} {version_of(engine)}",
        f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}",
        "no" if "losses differ" in wrong else f"yes ({len(traced['losses'])})",
        f"{code}, {traced_code}",
        f"{traced.get('steps')}, {len(steps)}",
        f"{traced.get('compiles')}, {len(compiles)}",
        headline.replace("|", "\\|"),
    ]
    return f"| {' | '.join(row)} |\n", [f"{engine.distribution}: {text}" for text in wrong]


def wrongs(holds: dict[str, bool]) -> Iterator[str]:
    """What does not hold."""
    return (words for words, is_so in holds.items() if not is_so)


def coldstep_headline(trace: coldstep.Trace) -> str:
    """The first line of its report."""
    from coldstep_viewers.headline import headline

    return " ".join(str(headline(trace)).split())


def version_of(engine: Engine) -> str:
    """The release of the trainer that its environment has."""
    if Path(sys.prefix) == ROOT / engine.python:
        return version(engine.distribution)
    code = f"from importlib.metadata import version; print(version({engine.distribution!r}))"
    python = ROOT / engine.python / "bin" / "python"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def main() -> int:
    """Write the table; 1 where anything is wrong."""
    rows, wrong = zip(*map(judge, ENGINES), strict=True)
    TABLE.parent.mkdir(exist_ok=True)
    TABLE.write_text(f"{_HEAD}{''.join(rows)}{_NOT_RUN}")
    for text in (text for each in wrong for text in each):
        print(text, file=sys.stderr)
    return 1 if any(wrong) else 0


if __name__ == "__main__":
    sys.exit(main())
