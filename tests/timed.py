"""Runs a command, and says at its end how long it took, on the clock and of all processors together."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import subprocess
import sys
import time

PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_MOST_S = 5.0


def main(name: str, command: list[str]) -> int:
    """The command's exit code."""
    began = time.monotonic()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # what its children leave becomes its own
    code = subprocess.call(command)
    until = time.monotonic() + _MOST_S
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < until:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.05)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)  # of all that was waited for, at any depth
    wall, cpu = (seconds / 60 for seconds in (time.monotonic() - began, used.ru_utime + used.ru_stime))
    print(f"{name}: {wall:.1f} minutes, {cpu:.1f} CPU minutes", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
