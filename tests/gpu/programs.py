"""The programs, how each is run, and what its trace must show on a GPU (docs/evidence/gpu.md: what an H100 said)."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import coldstep
from coldstep.model import Interval, Trace

HERE = Path(__file__).parent
TOP = HERE.parents[1]
ROOTS = [str(TOP / name) for name in ("tracer", "collectors", "viewers")]
AS_PRINTED = 0.05
"""By how much autotuning's seconds may differ from those that the framework prints."""
WITHIN = 0.25
"""By how much would_fit may be off."""


def entry_points(folder: Path) -> Path:
    """A folder for sys.path in which Python finds our entry points, collectors first: nothing is installed here."""
    about = folder / "installed" / "coldstep-0.dist-info"
    about.mkdir(parents=True, exist_ok=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: coldstep\nVersion: 0\n")
    shutil.copy(TOP / "entry_points.txt", about)
    return about.parent


@dataclass(slots=True)
class Ran:
    """A program's trace, and what it printed."""

    trace: Trace
    printed: str
    said: str = ""
    """On stderr."""

    @property
    def steps(self) -> list[Interval]:
        return [row for row in self.trace.intervals if row.kind == "step"]


@dataclass(slots=True)
class Program:
    """A script, and its expectations: each yields what is not as it must be."""

    name: str
    script: str
    framework: str
    expect: list[Callable[[Ran], Iterator[str]]]
    environment: dict[str, str] = field(default_factory=dict)
    runner: list[str] = field(default_factory=list)
    """What of Python runs the script; nothing: Python itself."""

    def run(self, folder: Path, device: str, timeout_s: float) -> Ran:
        """Run it in a process of its own, in `folder`. Raises RuntimeError with the end of what it printed."""
        done = self.done(folder, device, timeout_s)
        return Ran(coldstep.load(folder / "run.pftrace"), done.stdout, done.stderr)

    def done(self, folder: Path, device: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
        """The same, of one that need not write a trace."""
        folder.mkdir(parents=True, exist_ok=True)
        roots = [*ROOTS, str(entry_points(folder.resolve())), os.environ.get("PYTHONPATH", "")]
        path = os.pathsep.join(roots).rstrip(os.pathsep)
        ours = {"PYTHONPATH": path, "DEVICE": device, "TORCHINDUCTOR_CACHE_DIR": str(folder.resolve() / "cache")}
        command = [sys.executable, *self.runner, str(HERE / self.script)]
        try:
            done = subprocess.run(
                command, cwd=folder, env=os.environ | ours | self.environment, capture_output=True, text=True,
                timeout=timeout_s,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"it did not end within {timeout_s:.0f} s") from None
        if done.returncode:
            raise RuntimeError(done.stderr.strip().rpartition("\n")[2] or f"it ended with {done.returncode}")
        return done


def steady(ran: Ran) -> Iterator[str]:
    """That it settles: one that compiles in each step shows nothing else."""
    if {row.verdict for row in ran.trace.settling} != {"settled"}:
        yield "it did not settle"


def sees_kernels(ran: Ran) -> bool:
    """Whether what reads the profiler says that it could: PyTorch's does from 2.12 on."""
    return not any(row.name in ("kineto", "xspace") and row.missing for row in ran.trace.collectors)


def executes(ran: Ran) -> Iterator[str]:
    """That steps have the device's time, complete, and recorded ones have kernels."""
    if not ran.steps or not all("execute" in row.phases for row in ran.steps):
        yield "a step without time on the device"
    if any(row.measures != "complete" for row in ran.steps):
        yield "a step was only dispatched"
    if sees_kernels(ran) and not all(row.inside.get("device.kernel", 0) for row in ran.steps[:3]):
        yield "no kernels in the first steps"


def triton(ran: Ran) -> Iterator[str]:
    """That Triton's compiling is a phase of the first step."""
    shares = [share.phase for cost in ran.trace.cost if cost.first_step for share in cost.first_step.phases]
    if "inductor.triton" not in shares:
        yield "no phase inductor.triton in the first step"


def memory(ran: Ran) -> Iterator[str]:
    """That the device's memory is known, per step and of the run."""
    if not ran.trace.memory.device_peak_bytes or not all(row.device_bytes for row in ran.steps):
        yield "no memory of the device"


def cuda_graphs(ran: Ran) -> Iterator[str]:
    """That graphs are warmed up for in the first step, and recorded in the second."""
    rows = {(row.kind, ran.trace.intervals[row.interval].step) for row in ran.trace.cuda_graphs}
    if not rows >= {("warm-up", 0), ("recording", 1)}:
        yield f"of CUDA graphs it shows {sorted(rows, key=str)}"
    causes = [cause.text for settling in ran.trace.settling for cause in settling.causes if cause.step == 1]
    if not any("was recorded as a CUDA graph in step 1" in text for text in causes):
        yield "settling does not name the recording"


def engine(ran: Ran) -> Iterator[str]:
    """That the process which the program spawned is there, with its compile, its recompile and the cause of that."""
    names = [process.name for process in ran.trace.processes]
    if "EngineCore" not in names:
        yield f"of processes it shows {names}"
        return
    compiles = [row for row in ran.trace.compiles if row.process == names.index("EngineCore")]
    if len(compiles) != 2:
        yield f"{len(compiles)} compiles of EngineCore, and not 2"
    if [row.cause for row in ran.trace.recompiles] != ["shape"]:
        yield "the recompile of EngineCore has another cause than a shape"


def fits(ran: Ran) -> Iterator[str]:
    """That would_fit is near what the allocator had held."""
    expected, held = map(int, ran.printed.split())
    if not held or abs(expected / held - 1) > WITHIN:
        yield f"would_fit says {expected:,} bytes, and {held:,} were held"


def leaves_nothing(ran: Ran) -> Iterator[str]:
    """That all is seen, and no hook stays in the process."""
    yield from (note for note in ran.trace.run.notes if "inert" in note)
    if ran.trace.unplaced:
        yield f"compiled by a route that was not seen: {[row.what for row in ran.trace.unplaced]}"


def tunes(ran: Ran) -> Iterator[str]:
    """That autotuning takes what PyTorch prints, in its rows and in the ledger."""
    # PyTorch 2.11: "SingleProcess AUTOTUNE benchmarking takes 0.9 seconds and 2.7 seconds precompiling for 20 choices"
    said = re.findall(r"benchmarking takes ([\d.]+) seconds and ([\d.]+) seconds precompiling", ran.said)
    yield from _differs(ran, sum(float(part) for pair in said for part in pair))


def tunes_own_kernel(ran: Ran) -> Iterator[str]:
    """That Triton's autotuner takes what Triton prints, and that a kernel without it is one build."""
    # Triton 3.6: "finished after 3.41s,"
    yield from _differs(ran, sum(map(float, re.findall(r"finished after ([\d.]+)s,", ran.printed))))
    builds = [(row.name, row.tool, row.state) for row in ran.trace.builds]
    if [row for row in builds if row[1] != "gcc"] != [("add_kernel", "triton", "built")] or len(builds) < 2:
        yield f"of builds it shows {builds}"  # with what loads and launches kernels, made by a C compiler
    if [row.choices for row in ran.trace.autotuning] != [12]:
        yield f"of choices it shows {[row.choices for row in ran.trace.autotuning]}"


def _differs(ran: Ran, printed_s: float) -> Iterator[str]:
    rows = sum(row.compile_ns + row.timing_ns for row in ran.trace.autotuning) / 1e9
    ledger = sum(row.phases.get("autotune", 0) for row in ran.trace.intervals) / 1e9
    if not printed_s:
        yield "the framework prints no autotuning"
    elif max(abs(rows / printed_s - 1), abs(ledger / printed_s - 1)) > AS_PRINTED:
        yield f"autotuning takes {printed_s:.2f} s as printed, {rows:.2f} s in its rows, {ledger:.2f} s in the ledger"


def as_measured(ran: Ran) -> Iterator[str]:
    """That what is paid before the first step takes what the program measures around it."""
    for phase, seconds in json.loads(ran.printed.splitlines()[-1]).items():
        ns = sum(row.phases.get(phase, 0) for row in ran.trace.intervals)
        if abs(ns / 1e9 - seconds) > max(0.1 * seconds, 0.01):
            yield f"{phase} takes {seconds:.2f} s as measured, {ns / 1e9:.2f} s in the ledger"
    if [(row.name, row.state) for row in ran.trace.builds] != [("added", "built")]:
        yield f"of builds it shows {[(row.name, row.state) for row in ran.trace.builds]}"


PROGRAMS = [
    Program("Inductor with Triton", "train.py", "torch", [steady, executes, triton, memory], {"MODE": "default"}),
    Program(
        "max-autotune", "train.py", "torch", [steady, executes, triton, tunes], {"MODE": "max-autotune-no-cudagraphs"}
    ),
    Program("CUDA graphs", "train.py", "torch", [steady, cuda_graphs], {"MODE": "reduce-overhead"}),
    Program("XLA", "xla.py", "jax", [steady, executes]),
    Program("a spawned engine", "engine.py", "torch", [engine], runner=["-m", "coldstep", "run", "-o", "run.pftrace"]),
    Program(
        "kernels of its own",
        "own_kernel.py",
        "torch",
        [steady, tunes_own_kernel, leaves_nothing],
        {"TRITON_PRINT_AUTOTUNING": "1"},
    ),
    Program("before the first step", "before_steps.py", "torch", [as_measured, leaves_nothing]),
    Program("would_fit, PyTorch", "fit_torch.py", "torch", [fits]),
    Program("would_fit, JAX", "fit_jax.py", "jax", [fits], {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}),
]
