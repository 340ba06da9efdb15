"""Runs a command, and says at its end how long it took, on the clock and of all processors together."""

from __future__ import annotations

import resource
import subprocess
import sys
import time


def main(name: str, command: list[str]) -> int:
    """The command's exit code."""
    began = time.monotonic()
    code = subprocess.call(command)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)  # of all that was waited for, at any depth
    wall, cpu = (seconds / 60 for seconds in (time.monotonic() - began, used.ru_utime + used.ru_stime))
    print(f"{name}: {wall:.1f} minutes, {cpu:.1f} CPU minutes", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
