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
from threads.judge import PROGRAMS, SETS, followed  # noqa: E402

_ROUNDS = 3
_WITHIN = 0.25


def run(program: Path, folder: Path, environment: dict[str, str]) -> Trace:
    """Under coldstep, with caches of its own."""
    folder.mkdir()
    shutil.copy(program, folder / "program.py")
    options = ["--no-live", "--device", "off", "-o", "run.pftrace"]
    variables = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache"), **environment}
    command = [sys.executable, "-m", "coldstep", "run", *options, "program.py"]
    subprocess.run(command, cwd=folder, env=variables, capture_output=True)
    return coldstep.load(folder / "run.pftrace")


def compiling(trace: Trace) -> int:
    """What all compiles of the program's own took; TensorFlow's of one graph have the first of them as their parent."""
    again = {row.compile for row in trace.recompiles}
    own = [row for row in trace.compiles if row.origin == "user"]
    return sum(row.wall_ns for row in own if row.parent is None or (row.stack == "tensorflow" and row.id in again))


def first_remedy(trace: Trace) -> Remedy | None:
    """The one of the first answer that can be followed by machine."""
    answer = next(iter(trace.answers), None)
    finding = next((row for row in trace.findings if answer is not None and row.id == answer.finding), None)
    return next((row for row in finding.remedies if row.code or row.environment), None) if finding else None


def end(trace: Trace) -> tuple[str, str | None]:
    """How the program ended."""
    return trace.run.ended, trace.run.error


def row(program: Path, folder: Path, rounds: int) -> str:
    """A line for one program: what the answer claims, and what came of it."""
    before = [run(program, folder / f"before{n}", {}) for n in range(rounds)]
    remedy = first_remedy(before[0])
    if remedy is None:
        return f"| {program.stem} | no code | | |"
    answer = before[0].answers[0]
    says = "saves" if answer.saves else "paid"
    changed = folder / "changed" / program.name
    changed.parent.mkdir()
    source = program.read_text()
    changed.write_text(followed(source, remedy) if remedy.code else source)
    after = [run(changed, folder / f"after{n}", dict(remedy.environment)) for n in range(rounds)]
    ends = {*map(end, after)} - {("ok", None), *map(end, before)}
    if ends:  # it compiles less, for it breaks off
        raise RuntimeError(f"changed, it ended otherwise: {ends}")
    cost = median(trace.answers[0].cost_ns for trace in before)
    was, now = (median(map(compiling, traces)) for traces in (before, after))
    null = max(map(compiling, before)) - min(map(compiling, before))
    share = (was - now) / cost if cost else 0
    holds = "yes" if abs(share - 1) <= _WITHIN else "within the runs" if abs(was - now - cost) <= null else "NO"
    claim = f"{says} {cost / 1e6:.0f} ms"
    measured = f"{share:.2f} | {holds if says == 'saves' else '-'}"
    return f"| {program.stem} | {claim} | {measured} | {was / 1e6:.0f} ms, apart by {null / 1e6:.0f} |"


def main() -> None:
    """Print a line for each program whose path holds one of the words; the first may be a number of rounds."""
    words = sys.argv[1:]
    rounds = int(words.pop(0)) if words and words[0].isdigit() else _ROUNDS
    programs = [*(ROOT / "tests/remedies").glob("*.py"), *PROGRAMS, *(path for each in SETS.values() for path in each)]
    chosen = [path for path in sorted({*programs}) if not words or any(word in path.as_posix() for word in words)]
    print("| program | says | of it, measured | within a quarter | compiling |\n|" + " --- |" * 5)
    for program in chosen:
        with tempfile.TemporaryDirectory() as name:
            try:
                print(row(program, Path(name), rounds), flush=True)
            except Exception as error:
                print(f"| {program.stem} | {type(error).__name__}: {error} | | | |", flush=True)


if __name__ == "__main__":
    main()
