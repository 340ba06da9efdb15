"""Kills a job of three processes at seeded moments: what its report says is held against what was killed."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

import coldstep
from coldstep.model import Trace
from jobs.kinds import BIN, PROGRAMS

RUNS = 30
_OPEN, _EARLY = 10, 6
"""How many are within an open compile, and before the first file; the rest are at any time."""
_LIVES_S = 9.0
_LIMIT_S = 180.0
_WRITTEN_S = 0.4
"""What happened so long before a kill is written."""
_KILLED = ("killed", "running")


@dataclass(slots=True)
class Killed:
    """One run: who was killed when, and what the report lacks."""

    seed: int
    moment: str
    victim: str
    after_s: float = 0.0
    within: int = 0
    """Of how many that were killed a compile was open."""
    said: str = ""
    failures: list[str] = field(default_factory=list)


def killed(seed: int, folder: Path) -> Killed:
    """Run the job in an empty folder, kill as the seed says, and read what is left."""
    shutil.copytree(PROGRAMS, folder, dirs_exist_ok=True)
    chance = random.Random(seed)
    moment = "an open compile" if seed < _OPEN else "before the first file" if seed < _OPEN + _EARLY else "any time"
    ran = Killed(seed, moment, chance.choice(["root", "child", "everything"]))
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("COLDSTEP", "RANK"))}
    words = [sys.executable, BIN / "coldstep", "run", "three.py"]
    began = time.monotonic()
    with subprocess.Popen(
        words, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as root:
        victims = _at_the_moment(ran, chance, root, folder)
        ran.after_s = time.monotonic() - began
        is_open = {pid for pid in victims if _has_long_been_open(folder / f"open-{pid}")}
        ran.within = sum((folder / f"open-{pid}").exists() for pid in victims)
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            root.wait(_LIMIT_S)
        except subprocess.TimeoutExpired:
            ran.failures.append("the root did not end")
            root.kill()
    _wait_for_all(environment, folder)
    ran.failures += _read(ran, folder, victims, is_open)
    return ran


def _at_the_moment(ran: Killed, chance: random.Random, root: subprocess.Popen[bytes], folder: Path) -> list[int]:
    """Wait for it; the processes to kill."""
    if ran.moment == "before the first file":
        time.sleep(chance.uniform(0.02, 0.15))
        return [root.pid] if ran.victim != "everything" else _all(root)
    workers = _workers(root)
    if ran.moment == "any time":
        time.sleep(chance.uniform(0.0, _LIVES_S))
    victims = {"root": [root.pid], "child": workers[:1], "everything": _all(root)}[ran.victim]
    if ran.moment == "an open compile":
        until = time.monotonic() + _LIMIT_S
        while not (folder / f"open-{victims[0]}").exists() and time.monotonic() < until:
            time.sleep(0.005)
        time.sleep(chance.uniform(0.0, 1.5))
    return victims


def _has_long_been_open(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return time.time() - path.stat().st_mtime > _WRITTEN_S
    return False


def _workers(root: subprocess.Popen[bytes]) -> list[int]:
    """The two that the program spawns; multiprocessing's own helper is none."""
    until = time.monotonic() + _LIMIT_S
    while time.monotonic() < until:
        with contextlib.suppress(psutil.Error):
            below = psutil.Process(root.pid).children()
            workers = [each.pid for each in below if "spawn_main" in " ".join(each.cmdline())]
            if len(workers) == 2:
                return sorted(workers)
        time.sleep(0.01)
    return []


def _all(root: subprocess.Popen[bytes]) -> list[int]:
    with contextlib.suppress(psutil.Error):
        return [root.pid, *(each.pid for each in psutil.Process(root.pid).children(recursive=True))]
    return [root.pid]


def _wait_for_all(environment: dict[str, str], folder: Path) -> None:
    """Until nothing of the job runs any more: what its root leaves behind ends by itself."""
    until = time.monotonic() + _LIMIT_S
    while time.monotonic() < until:
        here = False
        for each in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                here |= each.cwd() == str(folder) and each.status() != psutil.STATUS_ZOMBIE
        if not here:
            return
        time.sleep(0.05)


def _read(ran: Killed, folder: Path, victims: list[int], is_open: set[int]) -> Iterator[str]:
    """What is wrong with the job's report."""
    files = list(folder.glob("*.pftrace"))
    if not files:
        ran.said = "no file"
        if ran.moment != "before the first file":
            yield "no file"
        return
    try:
        trace = coldstep.load(folder / "three.pftrace")
    except (OSError, coldstep.TraceError) as error:
        yield f"it does not load: {error}"
        return
    ran.said = ", ".join(f"{row.name} {row.ended}" for row in trace.processes)
    yield from _sums(trace)
    by_pid = {row.pid: row for row in trace.processes}
    for pid in by_pid.keys() & set(victims):
        if by_pid[pid].ended not in _KILLED:
            yield f"{by_pid[pid].name} was killed, and is said to have ended {by_pid[pid].ended}"
    for pid in is_open & by_pid.keys():
        if not any(row.process == by_pid[pid].index and row.outcome == "in_progress" for row in trace.compiles):
            yield f"{by_pid[pid].name} was killed within a compile, which is not shown to have been open"


def _sums(trace: Trace) -> Iterator[str]:
    """The phases of each stretch of each process come to what it took."""
    for row in trace.intervals:
        told = sum(row.phases.values()) + row.unattributed_ns
        if abs(told - row.wall_ns) > 1000:
            yield f"{row.kind} {row.step} of process {row.process}: {told} of {row.wall_ns} ns"
