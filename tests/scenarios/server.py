"""A process that has imported a framework and run nothing, and forks for each who asks; that one for each program, or
`coldstep run` of one.

Most of a small program's time is the import of its framework, of what that loads as it compiles, and of what coldstep
loads as a trace begins and is read.
The child is as `python -m coldstep run` is behind the line `import torch`: one Python thread, nothing started,
arguments, environment and descriptors of its own; it ends as Python ends, but takes no module apart.
Runs as a file compiled under a name in angles: no frame of it is the user's.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import importlib.util
import json
import os
import runpy
import select
import shutil
import socket
import sys
import tempfile
import threading
import weakref
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

_LOADED = ("coldstep", "jax", "sympy", "tensorflow", "torch")


def accepted(listening: socket.socket) -> socket.socket:
    """Wait for those who ask, until stdin ends: in a child for each, its connection."""
    while listening in select.select([listening, sys.stdin], [], [])[0]:
        connection, _ = listening.accept()
        if os.fork() == 0:
            os.setsid()
            listening.close()
            connection.sendall(f"{os.getpid()}\n".encode())
            return connection
        connection.close()
    listening.close()
    with contextlib.suppress(ChildProcessError):
        while True:  # so that their time is counted as ours
            os.wait()
    os._exit(0)


def serve(connection: socket.socket) -> dict[str, Any]:
    """Answer each line with a program's exit code; in the child: what it was asked to run."""
    with connection.makefile() as lines:
        for line in lines:
            asked: dict[str, Any] = json.loads(line)
            child = os.fork()
            if child == 0:
                connection.close()
                return asked
            _, status = os.waitpid(child, 0)
            connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def become(arguments: list[str], folder: str, env: dict[str, str], out: str, err: str, settings: list[str]) -> None:
    """Be a process that has just been started."""
    for descriptor, file in enumerate((os.devnull, out, err)):
        opened = os.open(file, os.O_RDONLY if descriptor == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    is_module = arguments[0] == "coldstep"
    sys.argv = ["-m", *arguments[1:]] if is_module else arguments
    sys.orig_argv = [sys.executable, *(["-m"] if is_module else []), *arguments]
    beside = folder if is_module else os.path.dirname(os.path.abspath(arguments[0]))
    sys.path[:1] = [beside, *filter(None, env.get("PYTHONPATH", "").split(os.pathsep))]
    sys.modules["__main__"] = ModuleType("__main__")
    tempfile.tempdir = None  # what a framework had it find was in another environment
    for name in settings:
        read_again(importlib.import_module(name))


def read_again(settings: ModuleType) -> None:
    """A module of PyTorch's settings, from the environment that is there now; once read it is of a class of its own."""
    ModuleType.__setattr__(settings, "__class__", ModuleType)
    for name in [name for name in vars(settings) if not name.startswith("__")]:
        delattr(settings, name)
    importlib.reload(settings)


def load_what_a_program_loads(program: str) -> None:
    """Import what a child of this process has loaded once it has recorded that program, and read its trace."""
    if importlib.util.find_spec("coldstep") is None:
        return
    there, (reads, writes), folder = set(sys.modules), os.pipe(), tempfile.mkdtemp()
    if os.fork() == 0:
        Path(folder, "program.py").write_text(program)
        become(["coldstep", "run", "-o", "t.pftrace", "program.py"], folder, {**os.environ}, os.devnull, os.devnull, [])
        with contextlib.suppress(SystemExit):  # an older framework may not take all of it
            run("coldstep")
        leave()
        importlib.import_module("coldstep").load("t.pftrace")
        new = [name for name in sys.modules if name not in there and name.startswith(_LOADED)]
        os.write(writes, "\n".join(new).encode())
        os._exit(0)
    assert os.wait()[1] == 0, "what records a program, and reads its trace, ended with an error"
    shutil.rmtree(folder)
    os.close(writes)
    with open(reads) as found:
        for name in found.read().split():
            with contextlib.suppress(ImportError):  # a kernel of PyTorch's is a module, too
                importlib.import_module(name)


def run(name: str) -> None:
    """As `python -m coldstep` does, or `python script.py`."""
    if name == "coldstep":
        runpy._run_module_as_main(name)  # type: ignore[attr-defined]  # what `python -m` calls, and has no public name
        return
    main = sys.modules["__main__"]
    main.__file__ = name
    with open(name, "rb") as script:
        exec(compile(script.read(), name, "exec"), vars(main))


def leave() -> None:
    """What Python does before it takes modules apart."""
    threading._shutdown()  # type: ignore[attr-defined]  # waits for the program's threads
    atexit._run_exitfuncs()


def end(code: int) -> NoReturn:
    """As Python does, but take no module apart: that takes seconds, most of them for memory no longer shared."""
    leave()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if os.fork():
    os._exit(0)  # what runs here is below no test, whose trace would see its compilers
listening = socket.socket(socket.AF_UNIX)
try:
    listening.bind(f"\0{sys.argv[1]}")  # of no file: Linux forgets it with its process
except OSError:
    sys.exit()  # another was first
listening.listen()
print("ready", flush=True)
for name in sys.argv[3:]:
    importlib.import_module(name)
load_what_a_program_loads(sys.argv[2])
# as Python ends PyTorch's would take its operators apart, 60 ms for each program; what is registered has no public name
for each in weakref.finalize._registry:  # type: ignore[attr-defined]
    each.atexit = False
if (guards := sys.modules.get("torch._dynamo.guards")) is not None:  # it writes 32 MB before it times a compile's
    guards.profile_guard_manager = lambda *_: 0.0
assert threading.active_count() == 1, threading.enumerate()
gc.collect()
gc.freeze()  # a collection in the child looks at what the child made: to look at an object is to copy its page
asked = serve(accepted(listening))
become(**asked)
try:
    run(asked["arguments"][0])
except SystemExit as ended:
    if not isinstance(ended.code, int | None):
        raise
    end(ended.code or 0)
end(0)
