"""A process that has imported a framework and run nothing, and forks for each program, which `coldstep run` then runs.

Most of a small program's time is the import of its framework. The child is as `python -m coldstep run` is behind the
line `import torch`: one Python thread, nothing started, arguments, environment and descriptors of its own; it ends as
Python ends. Runs as a file compiled under a name in angles: no frame of it is the user's.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import runpy
import sys
import threading
from types import ModuleType


def serve() -> dict[str, object]:
    """Answer each line of stdin with a program's exit code, on stdout; in the child: what it was asked to run."""
    for line in sys.stdin:
        asked: dict[str, object] = json.loads(line)
        child = os.fork()
        if child == 0:
            return asked
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
    os._exit(0)


def become(arguments: list[str], folder: str, env: dict[str, str], out: str, err: str) -> None:
    """Be a process that has just been started."""
    for descriptor, file in enumerate((os.devnull, out, err)):
        opened = os.open(file, os.O_RDONLY if descriptor == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = ["-m", *arguments[1:]]
    sys.orig_argv = [sys.executable, "-m", *arguments]
    sys.path[0] = folder
    sys.modules["__main__"] = ModuleType("__main__")


for name in sys.argv[1:]:
    importlib.import_module(name)
assert threading.active_count() == 1, threading.enumerate()
print("ready", flush=True)
asked = serve()
become(**asked)  # type: ignore[arg-type]
try:
    runpy._run_module_as_main("coldstep")  # type: ignore[attr-defined]  # what `python -m` calls
except SystemExit as ended:
    if "tensorflow" not in sys.modules:
        raise
    # to take its modules apart takes seconds, most of them for the memory that a fork then no longer shares
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(int(ended.code or 0))
