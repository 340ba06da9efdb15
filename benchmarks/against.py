"""What importing coldstep, a trace's start and its end cost against an earlier commit, and two marks.

`.venv/bin/python benchmarks/against.py 7e17fec`

CPU time of fresh processes, taken in turn: this tree's, the commit's, and the commit's once more. The ratio of the last
two, the null ratio, says how much of the other one is noise.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from configparser import ConfigParser
from itertools import pairwise
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
MARKS, BATCHES = 1_000, 9
PROGRAM = f"""
import sys
from time import process_time_ns, thread_time_ns
at = [process_time_ns()]
import coldstep
at.append(process_time_ns())
with coldstep.trace(sys.argv[1]):
    at.append(process_time_ns())
at.append(process_time_ns())
print(*at)
with coldstep.trace(sys.argv[1]):
    for batch in range({BATCHES + 1}):  # in the first the exits write to disk themselves
        before = thread_time_ns()
        for _ in range({MARKS}):
            with coldstep.step():
                pass
        if batch:
            print(thread_time_ns() - before)
"""
STRETCHES = ("import coldstep", "entering trace()", "leaving it", "a step's two marks")


def checked_out(commit: str, folder: Path) -> Path:
    """The commit's tree, with the entry points that installing it would give it."""
    archive = subprocess.run(["git", "archive", commit], cwd=HERE, check=True, capture_output=True).stdout
    folder.mkdir()
    subprocess.run(["tar", "-x"], cwd=folder, input=archive, check=True)
    setup = ConfigParser()
    setup.read(folder / "setup.cfg")
    metadata = folder / "coldstep.egg-info"
    metadata.mkdir()
    (metadata / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: coldstep\nVersion: 0\n")
    groups = [f"[{group}]{rows}" for group, rows in setup["options.entry_points"].items()]
    (metadata / "entry_points.txt").write_text("\n".join(groups))
    return folder


def sample(tree: Path, folder: str) -> list[float]:
    """CPU nanoseconds of each of the `STRETCHES`, in a fresh process that has imported nothing else."""
    roots = [tree, *(tree / name for name in ("tracer", "collectors", "viewers"))]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, roots))}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    words = [sys.executable, "-c", PROGRAM, "trace.pftrace"]
    said = subprocess.run(words, cwd=folder, env=environment, check=True, capture_output=True, text=True).stdout
    at, *marks = said.splitlines()
    stretches = [float(after - before) for before, after in pairwise(map(int, at.split()))]
    return [*stretches, statistics.median(map(int, marks)) / MARKS]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commit")
    parser.add_argument("--rounds", type=int, default=16, help="samples of each (default: 16)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = checked_out("HEAD", Path(folder, "ours")), checked_out(options.commit, Path(folder, "theirs"))
        trees = {"now": ours, "then": theirs, "again": theirs}
        samples: dict[str, list[list[float]]] = {name: [] for name in trees}
        for turn in range(options.rounds + 1):  # in the first Python keeps what it has compiled
            for name, tree in trees.items():
                taken = sample(tree, folder)
                if turn:
                    samples[name].append(taken)
    print(f"{'':22}{'now':>12}{'then':>12}{'ratio':>9}{'null':>9}")
    for number, stretch in enumerate(STRETCHES):
        now, then, again = (statistics.median(row[number] for row in samples[name]) for name in trees)
        print(f"{stretch:22}{now / 1e6:9.4f} ms{then / 1e6:9.4f} ms{now / then:9.3f}{again / then:9.3f}")


if __name__ == "__main__":
    main()
