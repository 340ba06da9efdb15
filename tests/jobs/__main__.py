"""`make jobs`: every kind of job, rows beside those of one process, kills and crowds, in tables; with words, the tables
that these name."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from jobs.crowds import CROWDS
from jobs.kills import RUNS, killed
from jobs.kinds import KINDS, held
from jobs.rows import WORKS, compared


def kinds() -> int:
    """Each kind of job. Returns how many are not as they must be."""
    _head("kind", "command", "processes", "compiles", "recompiles", "as counted, output and exit code equal")
    failed = 0
    for kind in KINDS:
        if kind.skipped:
            _row(kind.name, f"`{kind.traced}`", "", "", "", f"not run: {kind.skipped}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            ran = held(kind, Path(folder))
        failed += bool(ran.failures)
        _row(kind.name, f"`{kind.traced}`", ran.processes, ran.compiles, ran.recompiles, _verdict(ran.failures))
    return failed


def rows() -> int:
    """What a process compiles in a job, beside the same work in one process."""
    _head("work", "compiles, recompiles alone", "in each process of the job", "every row equal")
    failed = 0
    for work in WORKS:
        with tempfile.TemporaryDirectory() as folder:
            found = compared(work, Path(folder))
        if found is None:
            _row(work.name, "", "", f"not run: {work.needs} is not installed")
            continue
        failed += bool(found.failures)
        counts = [f"{len(each)}, {sum(bool(row[2]) for row in each)}" for each in (found.alone, *found.job)]
        _row(work.name, counts[0], "; ".join(counts[1:]), _verdict(found.failures))
    return failed


def kills() -> int:
    """The job that is killed at seeded moments."""
    _head("seed", "moment", "killed", "after, s", "compiles open", "the report", "as it must be")
    failed = 0
    for seed in range(RUNS):
        with tempfile.TemporaryDirectory() as folder:
            ran = killed(seed, Path(folder))
        failed += bool(ran.failures)
        _row(seed, ran.moment, ran.victim, f"{ran.after_s:.2f}", ran.within, ran.said, _verdict(ran.failures))
    return failed


def crowds() -> int:
    """Very many processes, two jobs at once, no room."""
    _head("what", "what came of it", "as it must be")
    failed = 0
    for crowd in CROWDS:
        with tempfile.TemporaryDirectory() as folder:
            ran = crowd(Path(folder))
        failed += bool(ran.failures)
        _row(ran.name, ran.said, _verdict(ran.failures))
    return failed


def _head(*columns: str) -> None:
    print(f"\n| {' | '.join(columns)} |\n| {' | '.join('---' for _ in columns)} |")


def _row(*cells: object) -> None:
    print(f"| {' | '.join(str(cell).replace('|', '/') for cell in cells)} |", flush=True)


def _verdict(failures: list[str]) -> str:
    return "yes" if not failures else f"**no**: {'; '.join(failures)}"


TABLES: dict[str, Callable[[], int]] = {"kinds": kinds, "rows": rows, "kills": kills, "crowds": crowds}

if __name__ == "__main__":
    chosen = sys.argv[1:] or list(TABLES)
    if unknown := [word for word in chosen if word not in TABLES]:
        sys.exit(f"no table {unknown[0]}: there are {', '.join(TABLES)}")
    sys.exit(1 if sum([TABLES[word]() for word in chosen]) else 0)
