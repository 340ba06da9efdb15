"""Jobs of very many processes, two jobs at once, folders that take no trace: what is written, and what is said."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import coldstep
from jobs.kinds import PROGRAMS, run

LIMIT_S = 1800.0
_MOST_FILES, _MOST_BYTES = 512, 1 << 30


@dataclass(slots=True)
class Crowd:
    """What was run, and what came of it."""

    name: str
    said: str = ""
    failures: list[str] = field(default_factory=list)


def quiet_crowd(folder: Path) -> Crowd:
    """Ten thousand processes that import no framework."""
    ran = _of("10,000 processes without a framework", folder)
    began = time.monotonic()
    done = run(
        "python", "crowd.py", "10000", "nothing", cwd=folder, limit_s=LIMIT_S, COLDSTEP=str(folder / "run.pftrace")
    )
    files = list(folder.glob("*.pftrace"))
    ran.said = f"{len(files)} files; {time.monotonic() - began:.0f} s"
    if (done.stdout, done.stderr, done.returncode) != (b"10000 ended well\n", b"", 0):
        ran.failures.append(f"it prints {done.stdout!r} and {done.stderr!r}")
    if files:
        ran.failures.append(f"{len(files)} files")
    return ran


def compiling_crowd(folder: Path) -> Crowd:
    """A thousand forks that compile."""
    ran = _of("1,000 forks that compile", folder)
    done = run("coldstep", "run", "crowd.py", "1000", "compile", cwd=folder, limit_s=LIMIT_S)
    files = list(folder.glob("*.pftrace"))
    size = sum(path.stat().st_size for path in files)
    trace = coldstep.load(folder / "crowd.pftrace")
    ran.said = f"{len(files)} files, {size / 2**20:.1f} MiB; {_words(done.stderr)}"
    if (done.stdout, done.returncode) != (b"1000 ended well\n", 0):
        ran.failures.append(f"it prints {done.stdout!r} and ends with {done.returncode}")
    if len(files) > _MOST_FILES or size > _MOST_BYTES:
        ran.failures.append(f"{len(files)} files of {size} bytes")
    if len(trace.processes) != len(files):
        ran.failures.append(f"the report has {len(trace.processes)} processes of {len(files)} files")
    checked = run("coldstep", "check", "crowd.pftrace", "--max-recompiles", "1", cwd=folder)
    ran.said += f"; check exits with {checked.returncode}: {_words(checked.stdout)}"
    if checked.returncode != 2:
        ran.failures.append(f"check exits with {checked.returncode}, though not all could be written")
    return ran


def two_at_once(folder: Path) -> Crowd:
    """Two jobs of one name in one folder."""
    ran = _of("two jobs at once, one name", folder)
    words = ["bash", "-c", "coldstep run engine.py > a.txt & coldstep run engine.py > b.txt; wait $!; wait"]
    run(*words, cwd=folder)
    files = sorted(folder.glob("*.pftrace"))
    traces = [coldstep.load(path) for path in files]
    whole = [trace for trace in traces if len(trace.processes) == 2]
    ran.said = f"{len(files)} files, {len(whole)} jobs of two processes"
    if len(whole) != 2:
        ran.failures.append(f"of two jobs {len(whole)} have both processes")
    counted = {pid for path in folder.glob("counted-*.json") for pid in [int(path.stem[8:])]}
    if {row.pid for trace in whole for row in trace.processes if row.name != "engine"} != counted:
        ran.failures.append("a process is in the other's job")
    if (folder / "a.txt").read_bytes() != (folder / "b.txt").read_bytes():
        ran.failures.append("they print other things")
    return ran


def full_disk(folder: Path) -> Crowd:
    """A file system without room."""
    return _mounted("a full disk", "mount -t tmpfs -o size=64k none out && head -c 65536 /dev/zero > out/full", folder)


def read_only(folder: Path) -> Crowd:
    """A folder that nobody can write."""
    return _mounted("a folder that is read only", "mount -t tmpfs -o ro none out", folder)


def _mounted(name: str, mount: str, folder: Path) -> Crowd:
    ran = _of(name, folder)
    (folder / "out").mkdir()
    unshare = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
    if subprocess.run([*unshare, "true"], capture_output=True).returncode:
        ran.said = "not run: this system lets nobody mount"
        return ran
    for words in ("coldstep run -o out/run.pftrace engine.py", "COLDSTEP=out/run.pftrace python engine.py"):
        done = run(*unshare, "bash", "-c", f"{mount}; {words}", cwd=folder)
        by_run = words.startswith("coldstep run")
        ran.said += f"{'; ' if ran.said else ''}{words.split()[0]}: {_words(done.stderr) or 'nothing said'}"
        refused = by_run and done.returncode == 2 and done.stdout == b""
        if not refused and (done.stdout, done.returncode) != (b"[6.0, 8.0]\nengine ended with 0\n", 0):
            ran.failures.append(f"{words} prints {done.stdout!r} and ends with {done.returncode}")
        if b"Traceback" in done.stderr or done.stderr.count(b"\n") > 2:
            ran.failures.append(f"{words} says {done.stderr!r}")
    return ran


def _of(name: str, folder: Path) -> Crowd:
    shutil.copytree(PROGRAMS, folder, dirs_exist_ok=True)
    return Crowd(name)


def _words(said: bytes) -> str:
    return " / ".join(said.decode(errors="replace").strip().splitlines()[-2:])


CROWDS: tuple[Callable[[Path], Crowd], ...] = (two_at_once, full_disk, read_only, compiling_crowd, quiet_crowd)
