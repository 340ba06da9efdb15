"""Tries each installed stack in a process of its own, as a user would run it: what attaches and is reported there.

A stack's self-test is `self_test.py` in its folder, and `checks.py` beside it. Imports no framework.
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

from coldstep.ahead.doctor_rows import CheckedCollector, CheckedTest, Checkup
from coldstep.errors import TraceError
from coldstep.loading import load
from coldstep.model import CollectorRow, Trace
from coldstep.vocabulary import STACKS
from coldstep_collectors.checks import Check, steps
from coldstep_collectors.names import is_older, since
from coldstep_collectors.support import BY_STACK, SUPPORT

_TIMEOUT_S = 180
_FOLDER = Path(__file__).parent
_PLAIN = "plain"
"""In the place of a stack: the self-test that needs no framework."""
_WORST_LAST = ("absent", "attached", "late", "partial", "failed")


def examine(progress: Callable[[str], None]) -> Checkup:
    """Try every installed stack; `progress` is called with those that have ended so far."""
    packages = {
        stack.name: stack.packages for stack in STACKS if stack.name in BY_STACK and _is_there(stack.packages[0])
    }
    stacks = [_PLAIN, *packages]
    versions = {"python": platform.python_version(), "coldstep": version("coldstep")}
    for name in dict.fromkeys(name for names in packages.values() for name in names):
        versions |= _version(name)
    rows: list[CollectorRow] = []
    tests: list[CheckedTest] = []
    with tempfile.TemporaryDirectory(prefix="coldstep-doctor-") as folder, ThreadPoolExecutor(2) as pool:
        for number, (trace, tried) in enumerate(pool.map(partial(try_stack, folder), stacks), start=1):
            rows += trace.collectors if trace is not None else ()
            tests += tried
            progress(f"{number} of {len(stacks)} checked: {', '.join(stacks[:number])}")
    return Checkup(versions, _collectors(rows, versions), tests)


def try_stack(folder: str, stack: str) -> tuple[Trace | None, list[CheckedTest]]:
    """Run a stack's program under `coldstep run`, read its trace and its report."""
    place = Path(folder, stack)
    place.mkdir()
    row = BY_STACK.get(stack)
    checks: Mapping[str, Check] = row.module("checks").CHECKS if row is not None else {"trace": steps}
    program = f"{row.package}/self_test.py" if row is not None else "plain_self_test.py"
    script = shutil.copy(_FOLDER / program, place / "train.py")
    try:
        _coldstep(place, "run", "--no-live", "-o", "run.pftrace", Path(script).name)
        trace = load(str(place / "run.pftrace"))
        _coldstep(place, "report", "run.pftrace")
    except (subprocess.SubprocessError, TraceError, OSError) as error:
        return None, [CheckedTest(f"{stack}.{name}", False, _why(error)) for name in checks]
    return trace, [_checked(f"{stack}.{name}", check(trace), trace) for name, check in checks.items()]


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
    return CheckedTest(name, False, f"not reported; not observed: {'; '.join(hidden)}" if hidden else "not reported")


def _is_there(package: str) -> bool:
    """Whether a package can be imported; a folder of the user's that is called so is none."""
    spec = find_spec(package)
    return spec is not None and spec.origin is not None


def _version(package: str) -> dict[str, str]:
    for name in (package, *packages_distributions().get(package, ())):  # it may come as package-cpu
        with suppress(PackageNotFoundError):  # installed without its metadata
            return {package: version(name)}
    return {}


def _collectors(rows: Iterable[CollectorRow], versions: Mapping[str, str]) -> list[CheckedCollector]:
    """Each collector as it fared worst, over the processes of all stacks."""
    by_name: dict[str, CollectorRow] = {}
    for row in rows:
        known = by_name.get(row.name)
        if known is None or _WORST_LAST.index(row.state) > _WORST_LAST.index(known.state):
            by_name[row.name] = row
    return [
        CheckedCollector(name, row.state, row.missing, advice(row, versions)) for name, row in sorted(by_name.items())
    ]


def advice(row: CollectorRow, versions: Mapping[str, str]) -> list[str]:
    """Advice about the missing parts of a collector: which version of its framework has them."""
    support = next((each for each in SUPPORT if any(lazy.name == row.name for lazy in each.collectors)), None)
    if support is None:
        return []
    framework, names = support.title, support.module("_private.names")
    installed = versions.get(support.package, "")
    by_todo: dict[str, list[str]] = {}
    for words in row.missing:
        first, last = since(vars(names).values(), words) or (names.NEWEST, names.NEWEST)
        last = last or names.NEWEST
        if is_older(installed, first):
            todo = f"{framework} {first} and newer have it"
        elif is_older(last, installed):
            todo = f"{framework} has it up to {last}: a newer coldstep may know the new name"
        else:
            continue
        by_todo.setdefault(todo, []).append(words)
    if len(row.missing) == 1:
        return list(by_todo)
    return [f"{todo} ({'; '.join(words.partition(' (')[0] for words in about)})" for todo, about in by_todo.items()]
