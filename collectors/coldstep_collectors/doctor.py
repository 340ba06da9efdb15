"""Tries each installed stack in a process of its own, as a user would run it: what attaches there, and what is told.

A stack's self-test is a program in `self_tests` and a row of `TESTS`. Imports no framework.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from coldstep._util.figures import duration
from coldstep.ahead.doctor_rows import CheckedCollector, CheckedTest, Checkup
from coldstep.errors import TraceError
from coldstep.loading import load
from coldstep.model import CollectorRow, Trace
from coldstep.vocabulary import STACKS
from coldstep_collectors.jax._private import names as jax_names
from coldstep_collectors.names import is_older, since
from coldstep_collectors.tensorflow._private import names as tensorflow_names
from coldstep_collectors.torch._private import names as torch_names
from coldstep_collectors.torch_xla._private import names as torch_xla_names

_TIMEOUT_S = 180
_PROGRAMS = Path(__file__).with_name("self_tests")
_WORST_LAST = ("absent", "attached", "late", "partial", "failed")
_FRAMEWORKS: Mapping[str, tuple[str, str, Any]] = {
    **dict.fromkeys(("jax", "xspace"), ("JAX", "jax", jax_names)),
    **dict.fromkeys(("dynamo", "inductor", "kineto"), ("PyTorch", "torch", torch_names)),
    "torch_xla": ("torch_xla", "torch_xla", torch_xla_names),
    "tensorflow": ("TensorFlow", "tensorflow", tensorflow_names),
}
"""What each collector reads: the framework, its package, and the private names."""

Check = Callable[[Trace], str | None]
"""What was seen of a promise, in words; None where it was not kept."""


def _steps(trace: Trace) -> str | None:
    steps = [row for row in trace.intervals if row.kind == "step"]
    return f"{len(steps)} steps" if len(steps) == 2 else None


def _compile(function: str | None, trace: Trace) -> str | None:
    found = [row for row in trace.compiles if function in (None, row.function) and row.outcome == "compiled"]
    return f"{found[0].function} compiled in {duration(found[0].wall_ns)}" if found else None


def _recompile(trace: Trace) -> str | None:
    found = [row for row in trace.recompiles if (row.cause, row.before, row.after) == ("shape", "f32[8]", "f32[5]")]
    return f"{found[0].argument} was f32[8], now f32[5]: shape" if found else None


def _xla_alone(trace: Trace) -> str | None:
    only = {
        row.id for row in trace.compiles if all(segment.phases.keys() == {"tensorflow.xla"} for segment in row.segments)
    }
    changed = [row for row in trace.recompiles if (row.cause, row.before, row.after) == ("shape", "f32[8]", "f32[6]")]
    found = [row for row in changed if row.compile in only]
    return f"{found[0].argument} was f32[8], now f32[6]: XLA compiled, and nothing was traced" if found else None


def _second_trace(trace: Trace) -> str | None:
    found = [row for row in trace.findings if row.kind == "second_trace"]
    return found[0].text if found else None


def _graph_break(kind: str, trace: Trace) -> str | None:
    found = [row for row in trace.graph_breaks if row.kind == kind and row.location is not None]
    return f"{kind}, at line {found[0].location.line}" if found and found[0].location else None


def _cache_hit(function: str, trace: Trace) -> str | None:
    found = [row for row in trace.compiles if row.function == function and row.outcome == "cache_hit"]
    return f"{function} came from disk in {duration(found[0].wall_ns)}" if found else None


TESTS: Mapping[str, Mapping[str, Check]] = {
    "plain": {"trace": _steps},
    "jax": {
        "compile": partial(_compile, "train_step"),
        "recompile": _recompile,
        "cache": partial(_cache_hit, "train_step"),
    },
    "dynamo": {
        "compile": partial(_compile, "train_step"),
        "recompile": _recompile,
        "graph_break": partial(_graph_break, "explicit"),
        "inductor": partial(_compile, "cached"),
        "cache": partial(_cache_hit, "cached"),
    },
    "torch_xla": {
        "compile": partial(_compile, None),
        "recompile": _recompile,
        "host_read": partial(_graph_break, "host_read"),
    },
    "tensorflow": {
        "compile": partial(_compile, "train_step"),
        "recompile": _recompile,
        "second_trace": _second_trace,
        "xla": _xla_alone,
    },
}
"""What each stack's program in `self_tests` must lead to, by the name of the promise."""


def examine(progress: Callable[[str], None]) -> Checkup:
    """Try every installed stack; `progress` is told which have come to an end so far."""
    packages = {stack.name: stack.packages for stack in STACKS if stack.name in TESTS and _is_there(stack.packages[0])}
    stacks = ["plain", *packages]
    versions = {"python": platform.python_version(), "coldstep": version("coldstep")}
    for name in dict.fromkeys(name for names in packages.values() for name in names):
        versions |= _version(name)
    rows: list[CollectorRow] = []
    tests: list[CheckedTest] = []
    with tempfile.TemporaryDirectory(prefix="coldstep-doctor-") as folder, ThreadPoolExecutor(2) as pool:
        for number, (trace, found) in enumerate(pool.map(partial(try_stack, folder), stacks), start=1):
            rows += trace.collectors if trace is not None else ()
            tests += found
            progress(f"{number} of {len(stacks)} checked: {', '.join(stacks[:number])}")
    return Checkup(versions, _collectors(rows, versions), tests)


def try_stack(folder: str, stack: str) -> tuple[Trace | None, list[CheckedTest]]:
    """Run a stack's program under `coldstep run`, read its trace and its report."""
    place = Path(folder, stack)
    place.mkdir()
    script = shutil.copy(_PROGRAMS / f"{stack}.py", place / "train.py")
    try:
        _coldstep(place, "run", "--no-live", "-o", "run.pftrace", Path(script).name)
        trace = load(str(place / "run.pftrace"))
        _coldstep(place, "report", "run.pftrace")
    except (subprocess.SubprocessError, TraceError, OSError) as error:
        return None, [CheckedTest(f"{stack}.{name}", False, _why(error)) for name in TESTS[stack]]
    return trace, [_checked(f"{stack}.{name}", check(trace), trace) for name, check in TESTS[stack].items()]


def _coldstep(folder: Path, *arguments: str) -> None:
    environment = {"PJRT_DEVICE": "CPU", **os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
    command = [sys.executable, "-m", "coldstep", *arguments]
    subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True)


def _why(error: Exception) -> str:
    """Why a program did not come to its end, in a line."""
    if isinstance(error, subprocess.TimeoutExpired):
        return f"it took longer than {_TIMEOUT_S} s"
    if isinstance(error, subprocess.CalledProcessError):
        lines = [line for line in str(error.stderr).splitlines() if line.strip() and not line.startswith("coldstep: ")]
        return lines[-1].strip() if lines else f"it ended with exit code {error.returncode}"
    return str(error)


def _checked(name: str, seen: str | None, trace: Trace) -> CheckedTest:
    if seen is not None:
        return CheckedTest(name, True, seen)
    hidden = [words for row in trace.collectors if row.state != "absent" for words in row.missing]
    return CheckedTest(name, False, f"not told; not observed is {'; '.join(hidden)}" if hidden else "not told")


def _is_there(package: str) -> bool:
    """Whether a package can be imported; a folder of the user's that is called so is none."""
    spec = find_spec(package)
    return spec is not None and spec.origin is not None


def _version(package: str) -> dict[str, str]:
    for name in (package, *packages_distributions().get(package, ())):  # tensorflow may come as tensorflow-cpu
        with suppress(PackageNotFoundError):  # installed without its metadata
            return {package: version(name)}
    return {}


def _collectors(rows: Iterable[CollectorRow], versions: Mapping[str, str]) -> list[CheckedCollector]:
    """Each collector as it fared worst, over the processes of all stacks."""
    found: dict[str, CollectorRow] = {}
    for row in rows:
        known = found.get(row.name)
        if known is None or _WORST_LAST.index(row.state) > _WORST_LAST.index(known.state):
            found[row.name] = row
    return [
        CheckedCollector(name, row.state, row.missing, advice(row, versions)) for name, row in sorted(found.items())
    ]


def advice(row: CollectorRow, versions: Mapping[str, str]) -> list[str]:
    """What to do about what a collector misses: which version of its framework has what is read."""
    if row.name not in _FRAMEWORKS:
        return []
    framework, package, names = _FRAMEWORKS[row.name]
    installed = versions.get(package, "")
    found: dict[str, list[str]] = {}
    for words in row.missing:
        first, last = since(vars(names).values(), words) or (names.NEWEST, names.NEWEST)
        last = last or names.NEWEST
        if is_older(installed, first):
            todo = f"{framework} {first} and newer have it"
        elif is_older(last, installed):
            todo = f"{framework} has it up to {last}: a newer coldstep may know the new name"
        else:
            continue
        found.setdefault(todo, []).append(words)
    if len(row.missing) == 1:
        return list(found)
    return [f"{todo} ({'; '.join(_what(words) for words in about)})" for todo, about in found.items()]


def _what(unseen: str) -> str:
    """What is not observed, without why."""
    return unseen.partition(" (")[0]
