"""What importing coldstep, a trace's start and its end cost against an earlier commit, and two marks; or, of a stack, a
cold compile and a thousand steady steps, marked and unmarked.

`.venv/bin/python benchmarks/against.py 7e17fec [--stack jax|torch]`

CPU time of fresh processes, taken in turn: this tree's, the commit's, and the commit's once more. The ratio of the last
two, the null ratio, says how much of the other one is noise.
"""

from __future__ import annotations

import argparse
import os
import shutil
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
_STEPS = """
import sys
from contextlib import nullcontext
from time import process_time_ns
{setup}
import coldstep
for marks in ("marked", "unmarked"):
    step, mark = made(), coldstep.step if marks == "marked" else nullcontext
    with coldstep.trace(f"{{marks}}-{{sys.argv[1]}}"):
        at = [process_time_ns()]
        for calls in (1, 1000):
            for _ in range(calls):
                with mark():
                    step()
            at.append(process_time_ns())
    print(*at)
"""
STACKS = {
    "jax": """
import jax, jax.numpy as jnp
w, x = jnp.ones((64, 64)), jnp.ones((8, 64))
def made():
    compiled = jax.jit(lambda w, x: w - 0.1 * jax.grad(lambda w: ((x @ w) ** 2).mean())(w))
    return lambda: compiled(w, x).block_until_ready()
""",
    "torch": """
import torch
model, x = torch.nn.Linear(64, 64), torch.ones(8, 64)
def made():
    torch.compiler.reset()
    compiled = torch.compile(lambda x: model(x).square().mean(), backend="aot_eager")
    return lambda: compiled(x).backward()
""",
}
OF_A_STACK = ("cold, marked", "1,000 steps, marked", "cold, unmarked", "1,000 steps, unmarked")


def checked_out(commit: str, folder: Path) -> Path:
    """The commit's tree, with the entry points that installing it would give it."""
    archive = subprocess.run(["git", "archive", commit], cwd=HERE, check=True, capture_output=True).stdout
    folder.mkdir()
    subprocess.run(["tar", "-x"], cwd=folder, input=archive, check=True)
    metadata = folder / "coldstep.egg-info"
    metadata.mkdir()
    (metadata / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: coldstep\nVersion: 0\n")
    if (folder / "entry_points.txt").exists():
        shutil.copy(folder / "entry_points.txt", metadata)
    else:  # an earlier commit, whose setup.cfg has them
        setup = ConfigParser()
        setup.read(folder / "setup.cfg")
        groups = [f"[{group}]{rows}" for group, rows in setup["options.entry_points"].items()]
        (metadata / "entry_points.txt").write_text("\n".join(groups))
    return folder


def sample(tree: Path, folder: str, stack: str | None) -> list[float]:
    """CPU nanoseconds of each of the `STRETCHES`, in a fresh process that has imported nothing else; or of those
    `OF_A_STACK`."""
    roots = [tree, *(tree / name for name in ("tracer", "collectors", "viewers"))]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, roots))}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    program = PROGRAM if stack is None else _STEPS.format(setup=STACKS[stack])
    words = [sys.executable, "-c", program, "trace.pftrace"]
    said = subprocess.run(words, cwd=folder, env=environment, check=True, capture_output=True, text=True).stdout
    at, *marks = said.splitlines()
    if stack is not None:
        return [float(after - before) for line in (at, *marks) for before, after in pairwise(map(int, line.split()))]
    stretches = [float(after - before) for before, after in pairwise(map(int, at.split()))]
    return [*stretches, statistics.median(map(int, marks)) / MARKS]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commit")
    parser.add_argument("--rounds", type=int, default=16, help="samples of each (default: 16)")
    parser.add_argument("--stack", choices=STACKS, help="a cold compile and steady steps of that stack")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = checked_out("HEAD", Path(folder, "ours")), checked_out(options.commit, Path(folder, "theirs"))
        trees = {"now": ours, "then": theirs, "again": theirs}
        samples: dict[str, list[list[float]]] = {name: [] for name in trees}
        for turn in range(options.rounds + 1):  # in the first Python keeps what it has compiled
            for name, tree in trees.items():
                taken = sample(tree, folder, options.stack)
                if turn:
                    samples[name].append(taken)
    print(f"{'':22}{'now':>12}{'then':>12}{'ratio':>9}{'null':>9}")
    for number, stretch in enumerate(OF_A_STACK if options.stack else STRETCHES):
        now, then, again = (statistics.median(row[number] for row in samples[name]) for name in trees)
        print(f"{stretch:22}{now / 1e6:9.4f} ms{then / 1e6:9.4f} ms{now / then:9.3f}{again / then:9.3f}")


if __name__ == "__main__":
    main()
