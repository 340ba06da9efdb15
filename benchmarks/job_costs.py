"""What a process pays where coldstep is installed and no job runs, and what it pays as a part of a job.

`.venv/bin/python benchmarks/job_costs.py [installed] [parts] [forks]`, all three by default. Fresh processes in turns:
without, with, and without once more; what the last two differ by says how much of the difference is noise. Each figure
is processor time in milliseconds, user and system, and a median of what the pairs differ by. The limits are of
a machine whose `python -c pass` takes 9.5 ms: here they count times what it takes more, measured in the same turns, for
a busy machine is slow.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHIM, LINE = ROOT / "tracer/coldstep_shim", ROOT / "tracer/coldstep.pth"
STARTS, IMPORTS = 200, 15
LIMITS_PASS_MS = 9.5
VERSIONS = ("3.11", "3.12", "3.13")
_JAX = "import jax; jax.jit(lambda x: x + 1)(1.0)"
_TORCH = "import torch; torch.compile(lambda x: x + 1, backend='aot_eager')(torch.ones(3))"
FORKS = """
import os, sys, time
import torch
step = torch.compile(lambda x: x * 2, backend="eager", dynamic=False)
step(torch.ones(2))
compiles = sys.argv[1] == "compile"
for turn in range(int(sys.argv[2])):
    began = time.thread_time()
    if (pid := os.fork()) == 0:
        if compiles:
            step(torch.ones(3))
        os._exit(0)
    _, _, used = os.wait4(pid, 0)
    print(time.thread_time() - began + used.ru_utime + used.ru_stime)
"""

Sample = Callable[[], float]


@dataclass(slots=True)
class Cost:
    """What is measured, how far it may cost, in milliseconds, and what it was."""

    name: str
    most_ms: float
    without: float
    costs: float
    null: float
    pass_ms: float
    pairs: int

    @property
    def most_here_ms(self) -> float:
        """How far it may cost on a machine of this pace."""
        return self.most_ms * self.pass_ms / LIMITS_PASS_MS

    def text(self) -> str:
        """A row of the table."""
        figures = f"{self.without:.2f}", f"{self.costs:+.2f}", f"{self.null:+.2f}"
        limits = f"{self.most_ms:g}", f"{self.pass_ms:.1f}", f"{self.most_here_ms:.2f}"
        return f"| {' | '.join([self.name, *figures, *limits, str(self.pairs)])} |"


def compared(name: str, most_ms: float, off: Sample, on: Sample, pace: Sample, rounds: int) -> Cost:
    """In turns; all in milliseconds."""
    rows = [(off(), on(), off(), pace()) for _ in range(rounds)]
    costs = statistics.median(on - (first + last) / 2 for first, on, last, _ in rows)
    null = statistics.median(last - first for first, _, last, _ in rows)
    off_ms, pass_ms = (statistics.median(row[at] for row in rows) for at in (0, 3))
    return Cost(name, most_ms, off_ms, costs, null, pass_ms, rounds)


def started(words: list[str], cwd: Path | None = None, **env: str) -> Sample:
    """How much of the processors a process takes from its start to its end."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("COLDSTEP", "PYTHON"))} | env

    def sample() -> float:
        for path in cwd.glob("*.pftrace") if cwd is not None else ():
            path.unlink()
        process = subprocess.Popen(
            words, env=kept, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"{words} ended with {process.returncode}")
        return (used.ru_utime + used.ru_stime) * 1000

    return sample


def paced(folder: Path) -> Sample:
    """`python -c pass` of an empty environment."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "empty"], check=True)
    return started([str(folder / "empty/bin/python"), "-c", "pass"])


def installed(folder: Path, pace: Sample) -> Iterator[Cost]:
    """`python -c pass` where the wheel's line is, and no variable."""
    for version in VERSIONS:
        found = subprocess.run([ROOT / "requirements/find_python", version], capture_output=True, text=True)
        if found.returncode:
            continue
        # Python itself reads any such file, and 3.13 brings a codec for the first: the last shows what our line adds
        for beside in ("", " beside another .pth", " in the place of an empty one"):
            pythons = []
            for name in ("without", "with"):
                place = folder / f"{version}{len(beside)}{name}"
                subprocess.run([found.stdout.strip(), "-m", "venv", "--without-pip", place], check=True)
                packages = next(place.glob("lib/python3*/site-packages"))
                if "empty" in beside and name == "without":
                    (packages / LINE.name).write_text("# nothing\n")
                if "another" in beside:
                    (packages / "another.pth").write_text("import os; os.environ.get('ANOTHER')\n")
                if name == "with":
                    shutil.copytree(SHIM, packages / SHIM.name)
                    shutil.copy(LINE, packages)
                pythons.append(str(place / "bin/python"))
                subprocess.run([pythons[-1], "-c", "pass"], check=True)
            off, on = (started([python, "-c", "pass"]) for python in pythons)
            name = f"`python -c pass`, {version}, installed{beside}"
            yield compared(name, 0.2 if beside else 0.25, off, on, pace, STARTS)


def parts(folder: Path, pace: Sample) -> Iterator[Cost]:
    """What a process of a job pays, by what it does."""
    job = str(folder / "run.pftrace")
    pay = [
        ("imports no framework", 2.0, "pass", STARTS),
        ("imports torch, compiles nothing", 40.0, "import torch", IMPORTS),
        ("imports torch._dynamo, compiles nothing", 40.0, "import torch._dynamo", IMPORTS),
        ("imports JAX, compiles nothing", 40.0, "import jax", IMPORTS),
        ("compiles one function with JAX", 120.0, _JAX, IMPORTS),
        ("compiles one function with torch.compile, aot_eager", 120.0, _TORCH, IMPORTS),
    ]
    for name, most_ms, text, rounds in pay:
        words = [sys.executable, "-c", text]
        # the root is another process, so that this is a part: it says nothing, and judges nothing at its end
        told = {"COLDSTEP": job, "COLDSTEP_JOB": f"{'ab' * 10}:{os.getpid()}:"}
        yield compared(name, most_ms, started(words, folder), started(words, folder, **told), pace, rounds)


def forks(folder: Path, pace: Sample) -> Iterator[Cost]:
    """A fork that ends at once, and the first compile of one, of a process that has compiled."""
    (folder / "forks.py").write_text(FORKS)
    plain = [sys.executable, "forks.py"]
    traced = [sys.executable, "-m", "coldstep", "run", "--device", "off", "-o", "forks.pftrace", "forks.py"]
    for name, most_ms, what, number in (
        ("a fork that ends at once", 1.0, "end", 40),
        ("a fork that compiles", 20.0, "compile", 15),
    ):

        def sample(words: list[str], what: str = what, number: int = number) -> Sample:
            def median() -> float:
                done = subprocess.run(
                    [*words, what, str(number)], cwd=folder, capture_output=True, text=True, check=True
                )
                return statistics.median(float(line) for line in done.stdout.split()) * 1000

            return median

        yield compared(name, most_ms, sample(plain), sample(traced), pace, 5)


def main() -> int:
    """Print the table. Returns 1 where something costs more than it may."""
    measures = {"installed": installed, "parts": parts, "forks": forks}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        pace = paced(folder)
        print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f} as this begins\n")
        cells = "a process", "without", "costs", "null", "limit", "`pass`", "limit here", "rounds"
        print(f"| {' | '.join(cells)} |\n|{' --- |' * len(cells)}")
        dear = 0
        for name in sys.argv[1:] or measures:
            for row in measures[name](folder, pace):
                dear += row.costs > row.most_here_ms
                print(row.text(), flush=True)
    return 1 if dear else 0


if __name__ == "__main__":
    sys.exit(main())
