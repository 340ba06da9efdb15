"""The kinds of jobs: each is run as it is and traced, and its report held against what its processes count."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import coldstep
from coldstep.model import Trace

PROGRAMS = Path(__file__).parent / "programs"
BIN = Path(sys.executable).parent
LIMIT_S = 300
_NUMBER = re.compile(r"[-_:]\d+(:\d+)?$")  # multiprocessing: "SpawnProcess-1"
# pytest: "2 passed in 3.21s"
_TIMES = re.compile(rb"in [\d.]+s")


@dataclass(frozen=True, slots=True)
class Kind:
    """A command that starts processes, and what its report must say."""

    name: str
    command: str
    """As a user types it, without coldstep."""
    causes: dict[str, list[str]]
    """Of each name of a process, the causes of its recompiles, of all processes of that name together."""
    file: str
    """The trace that `coldstep run` makes of it."""
    environment: dict[str, str] = field(default_factory=dict)
    by_variable: bool = False
    """Traced by COLDSTEP alone, and not by `coldstep run`."""
    needs: str = ""
    """A package that it cannot do without, beyond those of every environment here."""

    @property
    def skipped(self) -> str:
        """Why it cannot run here; empty where it can."""
        return f"{self.needs} is not installed" if self.needs and find_spec(self.needs) is None else ""

    @property
    def traced(self) -> str:
        """The command with coldstep."""
        if self.by_variable:
            return f"COLDSTEP={self.file} {self.command}"
        script = self.command.removeprefix("python ")
        return f"coldstep run {script}"


@dataclass(slots=True)
class Ran:
    """What became of a kind."""

    kind: Kind
    processes: int = 0
    compiles: int = 0
    recompiles: int = 0
    failures: list[str] = field(default_factory=list)


RAY = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
"""So that it writes nothing into the home folder, and asks nobody."""
_ACTORS = {"Model": ["shape", "shape"]}
KINDS = (
    Kind("a spawned engine", "python engine.py", {"EngineCore": ["shape"]}, "engine.pftrace"),
    Kind("a worker that is killed", "python ends.py killed", {}, "ends.pftrace"),
    Kind("a worker that leaves by os._exit", "python ends.py exits", {}, "ends.pftrace"),
    Kind("a worker that is terminated", "python ends.py terminated", {}, "ends.pftrace"),
    Kind("subprocess", "python starts.py", {"steps": ["shape"]}, "starts.pftrace"),
    Kind("a shell", "bash train.sh", {"steps": ["shape"]}, "bash.pftrace"),
    Kind("a variable alone", "bash train.sh", {"steps": ["shape"]}, "run.pftrace", by_variable=True),
    Kind("torchrun, two ranks", "torchrun --nproc-per-node 2 ranks.py", {"ranks": ["shape"]}, "torchrun.pftrace"),
    Kind(
        "accelerate, two ranks",
        "accelerate launch --multi_gpu --num_processes 2 ranks.py",
        {"ranks": ["shape"]},
        "accelerate.pftrace",
    ),
    Kind("a fork", "python fork.py", {"fork": ["shape"]}, "fork.pftrace"),
    Kind(
        "gunicorn --preload, two workers",
        "python serve.py gunicorn --preload -w 2 -b 127.0.0.1:PORT app:wsgi",
        {"gunicorn": ["shape", "shape"]},
        "serve.pftrace",
    ),
    Kind(
        "uvicorn, two workers",
        "python serve.py uvicorn --workers 2 --port PORT app:asgi",
        {"SpawnProcess": ["shape", "shape"]},
        "serve.pftrace",
    ),
    Kind("a pool of three", "python pool.py 3", {}, "pool.pftrace"),
    Kind("pytest-xdist", "pytest -p no:cacheprovider -q -n 2 model_tests.py", {}, "pytest.pftrace"),
    Kind(
        "a DataLoader's worker, forked", "python loader.py fork", {"ForkProcess": ["shape", "shape"]}, "loader.pftrace"
    ),
    Kind("a DataLoader's worker, spawned", "python loader.py spawn", {"SpawnProcess": ["shape"]}, "loader.pftrace"),
    Kind("Ray, two actors and a task", "python actors.py", _ACTORS, "actors.pftrace", RAY, needs="ray"),
    Kind(
        "the same, by a variable alone", "python actors.py", _ACTORS, "run.pftrace", RAY, by_variable=True, needs="ray"
    ),
    Kind("the same, on a cluster that runs", "python actors.py attach", _ACTORS, "actors.pftrace", RAY, needs="ray"),
)


def run(*words: str | Path, cwd: Path, limit_s: float = LIMIT_S, **env: str) -> subprocess.CompletedProcess[bytes]:
    """A command beside this Python, without what a job around it would say to it."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("COLDSTEP", "RANK", "PYTEST"))}
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    kept |= {"PATH": path, "OMP_NUM_THREADS": "1"} | env
    return subprocess.run(words, cwd=cwd, env=kept, capture_output=True, timeout=limit_s)


def held(kind: Kind, folder: Path) -> Ran:
    """Run a kind in an empty folder, as it is and traced."""
    plain, traced = folder / "plain", folder / "traced"
    for each in (plain, traced):
        shutil.copytree(PROGRAMS, each)
    before = run("bash", "-c", kind.command, cwd=plain, **kind.environment)
    after = run("bash", "-c", kind.traced, cwd=traced, **kind.environment)
    ran = Ran(kind)
    if _text(before) != _text(after):
        ran.failures.append(f"output: {_text(before)!r} is {_text(after)!r}, and says {_last(after.stderr)}")
    if before.returncode != after.returncode:
        ran.failures.append(f"exit code {before.returncode} is {after.returncode}")
    try:
        trace = coldstep.load(traced / kind.file)
    except (OSError, coldstep.TraceError) as error:
        ran.failures.append(f"no trace: {error}")
        return ran
    ran.processes, ran.recompiles = len(trace.processes), len(trace.recompiles)
    ran.compiles = sum(row.outcome in ("compiled", "cache_hit") for row in trace.compiles)
    ran.failures += [*miscounted(trace, traced), *_other_causes(kind, trace), *_not_ready(kind, trace)]
    return ran


def miscounted(trace: Trace, folder: Path) -> Iterator[str]:
    """The processes that have another number of compiles in the trace than their framework counted itself."""
    seen = Counter(row.process for row in trace.compiles if row.outcome in ("compiled", "cache_hit"))
    by_pid = {trace.processes[index].pid: number for index, number in seen.items()}
    counted = {int(path.stem[8:]): json.loads(path.read_text()) for path in folder.glob("counted-*.json")}
    if not counted:
        yield "no process counted"
    for pid in by_pid.keys() | counted.keys():
        if by_pid.get(pid, 0) != counted.get(pid, 0):
            yield f"process {pid}: {by_pid.get(pid, 0)} compiles in the trace, {counted.get(pid, 0)} by its own count"


def _not_ready(kind: Kind, trace: Trace) -> Iterator[str]:
    """That a server is ready with its first response, where nothing else shows it."""
    by = trace.job_ready.by if trace.job_ready is not None else None
    if "serve.py" in kind.command and by != "response":
        yield f"the server is ready by {by}, and not by its first response"


def _other_causes(kind: Kind, trace: Trace) -> Iterator[str]:
    found: dict[str, list[str]] = {}
    for row in trace.recompiles:
        name = _NUMBER.sub("", trace.processes[row.process].name or "")
        found.setdefault(name, []).append(row.cause)
        if row.before is None or row.after is None:
            yield f"a recompile of {name} lacks a value: {row.before} → {row.after}"
    if found != kind.causes:
        yield f"recompiles {found}, and not {kind.causes}"


def _text(done: subprocess.CompletedProcess[bytes]) -> bytes:
    return _TIMES.sub(b"in -", done.stdout)


def _last(said: bytes) -> str:
    return said.decode(errors="replace").strip().rpartition("\n")[2]
