"""Holds what the first answer says that a change saves against the run with that change made.

The programs are those of `tests/remedies`, each run three times as it is and three times as its first remedy says.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import coldstep
from coldstep.model import Remedy, Trace

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from threads.judge import followed  # noqa: E402

_ROUNDS = 3


def run(program: Path, folder: Path, environment: dict[str, str]) -> Trace:
    """Under coldstep, with caches of its own."""
    folder.mkdir()
    shutil.copy(program, folder / "program.py")
    command = [
        sys.executable,
        "-m",
        "coldstep",
        "run",
        "--no-live",
        "--device",
        "off",
        "-o",
        "run.pftrace",
        "program.py",
    ]
    variables = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache"), **environment}
    subprocess.run(command, cwd=folder, env=variables, capture_output=True, check=True)
    return coldstep.load(folder / "run.pftrace")


def compiling(trace: Trace) -> int:
    """What all compiles of the program's own took."""
    return sum(row.wall_ns for row in trace.compiles if row.origin == "user" and row.parent is None)


def main() -> None:
    """Print a line for each program: said, and what came of it."""
    print("| program | says | of it, measured | |\n| --- | --- | --- | --- |")
    for program in sorted((ROOT / "tests" / "remedies").glob("*.py")):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            before = [run(program, folder / f"before{n}", {}) for n in range(_ROUNDS)]
            answer = before[0].answers[0]
            finding = next(row for row in before[0].findings if row.id == answer.finding)
            remedy: Remedy = next(row for row in finding.remedies if row.code or row.environment)
            changed = folder / "changed" / program.name
            changed.parent.mkdir()
            source = program.read_text()
            changed.write_text(followed(source, remedy) if remedy.code else source)
            after = [run(changed, folder / f"after{n}", dict(remedy.environment)) for n in range(_ROUNDS)]
            costs = [trace.answers[0].cost_ns for trace in before]
            was, now = (median(map(compiling, traces)) for traces in (before, after))
            null = max(map(compiling, before)) - min(map(compiling, before))
            says = "saves" if answer.saves else "paid"
            print(
                f"| {program.stem} | {says} {median(costs) / 1e6:.0f} ms | {(was - now) / median(costs):.2f} | "
                f"of one program's compiling {was / 1e6:.0f} ms, its runs apart by {null / 1e6:.0f} ms |",
                flush=True,
            )


if __name__ == "__main__":
    main()
