"""Runs a small program in a process of its own, as a user would."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from scenarios.warm import server

ANEW = """
import sys
for name in [name for name in sys.modules if name.startswith("coldstep") and not name.startswith("coldstep_shim")]:
    del sys.modules[name]
"""
"""The first lines of a program that is about what coldstep loads: its server has all of it."""


def run(
    source: str,
    folder: Path,
    *,
    env: dict[str, str] | None = None,
    check: bool = True,
    timeout: float = 300,
    stack: str | None = None,
    settings: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    """Run `source` in `folder`; with `check`, a non-zero exit fails the test and shows what was printed.

    With a `stack`, in a process that has imported it before it has the environment (see `warm`); modules of `settings`,
    which read the environment as they are imported, read it again.
    """
    command = _command(source, folder)
    if stack is not None:
        return warm(stack, command[1:], folder, env=env, check=check, settings=settings)
    done = subprocess.run(command, cwd=folder, env=_env(env), capture_output=True, text=True, timeout=timeout)
    assert not check or done.returncode == 0, done.stderr
    return done


def warm(
    stack: str,
    words: list[str],
    folder: Path,
    *,
    env: dict[str, str] | None = None,
    check: bool = True,
    settings: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    """`python -m coldstep …`, or `python script.py …`, in a process that has imported the stack's framework already.

    Where a test is not about the import, that is most of what it would take.
    """
    set_by_import = {"PJRT_DEVICE": "CPU"} if stack == "torch_xla" else {}
    code, said = server(stack, sys.executable).run(words, folder, set_by_import | _env(env), settings)
    assert not check or code == 0, said
    return subprocess.CompletedProcess(words, code, (folder / "stdout").read_text(), said)


def stack_of(source: str) -> str:
    """The framework that a program imports: the one that needs the other of two."""
    names = ("torch_xla", "tensorflow", "torch", "jax")
    return next(name for name in names if re.search(rf"\bimport (.*\b)?{name}\b", source))


def losses(source: str, folder: Path, device: str, stack: str | None = None) -> list[float]:
    """What `source` prints, having trained into the trace $TRACE (`<device>.pftrace`) with device traces as $DEVICE."""
    done = run(source, folder, env={"TRACE": f"{device}.pftrace", "DEVICE": device}, stack=stack)
    printed: list[float] = json.loads(done.stdout)
    return printed


def kill_when(source: str, folder: Path, ready: Callable[[], bool], after_s: float = 0.0) -> None:
    """Run `source` in `folder` until `ready()`, wait `after_s`, and kill it with SIGKILL."""
    process = subprocess.Popen(_command(source, folder), cwd=folder, env=_env(None), stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 240
        while not ready():
            assert process.poll() is None, "the program ended before it could be killed"
            assert time.monotonic() < deadline, "the program never came so far"
            time.sleep(0.02)
        time.sleep(after_s)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def _command(source: str, folder: Path) -> list[str]:
    script = folder / "program.py"
    script.write_text(textwrap.dedent(source))
    return [sys.executable, str(script)]


def _env(extra: dict[str, str] | None) -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key != "RANK"} | (extra or {})
