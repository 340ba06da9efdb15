"""Programs run by a `server` of their stack: all workers of a test run have one, of which each thread that asks has a
child, for that runs one program at a time."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import os
import select
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import scenarios

IMPORTS = {
    "jax": ["jax"],
    "jax_modules": ["jax", "equinox", "flax.linen", "flax.nnx", "optax"],
    "torch": [
        "torch",
        "torch._dynamo",
        "torch._dynamo.backends.debugging",
        "torch._inductor.compile_fx",
        "torch.distributed.tensor.experimental",
    ],
    "torch_xla": ["torch_xla", "torch._dynamo"],
    "tensorflow": ["tensorflow"],
}
"""What a server has imported: what nearly every program imports anyway, torch's by its first compile."""
_PROGRAM = """
import coldstep
for size in (8, 5):
    with coldstep.step():
        {}
"""
_OF_JAX = "import jax; jax.jit(lambda x: x.sum())(jax.numpy.ones(size))"
_OF_TORCH = "import torch; x = torch.ones(size); torch.compile(torch.sum, backend='eager')(x)"
_CALLS = {
    "jax": _OF_JAX,
    "jax_modules": _OF_JAX,
    "torch": f"""{_OF_TORCH}
        if size == 8:
            torch._inductor.config.force_disable_caches = True  # what is loaded from a cache needs less
            torch._inductor.config.cpp.vec_isa_ok = False  # of which instructions there are it compiles a program each
            torch.compile(torch.sin)(x)""",
    "torch_xla": _OF_TORCH,
    "tensorflow": "import tensorflow; tensorflow.function(tensorflow.reduce_sum)(tensorflow.ones(size))",
}
"""What programs have in common: a server has what is loaded by this, too."""
_TO_IMPORT = {"torch_xla": {"TORCHINDUCTOR_COMPILE_THREADS": "1"}}
"""What it imports that in, beside what is there: torch_xla 2.8 brings Inductor, which would start its workers."""
_MOST_TRIES = 5  # another worker may start it in the same moment
_mine = threading.local()
_all: list[Server] = []
_started: list[tuple[subprocess.Popen[str], tempfile.TemporaryDirectory[str]]] = []


class Server:
    """A child of a process that has imported the framework; it waits for programs to run."""

    def __init__(self, stack: str, python: str, env: Mapping[str, str]) -> None:
        run, paths = os.environ.get("PYTEST_XDIST_TESTRUNUID", os.getpid()), os.environ.get("PYTHONPATH")
        address = hashlib.sha256(repr((run, paths, stack, python, sorted(env.items()))).encode()).hexdigest()
        self._connection, self._pid = socket.socket(socket.AF_UNIX), 0
        for _ in range(_MOST_TRIES):
            if self._connection.connect_ex(f"\0{address}") == 0:
                break
            _start(address, stack, python, env)
        else:
            raise RuntimeError(f"the server of {stack} does not start")
        self._lines = self._connection.makefile()
        _all.append(self)
        self._pid = int(self._answer(scenarios.TIMEOUT_S))

    @property
    def alive(self) -> bool:
        """Whether it can run another program: it says nothing unasked, but that it ended."""
        return self._connection.fileno() >= 0 and not select.select([self._connection], [], [], 0)[0]

    def run(
        self, arguments: list[str], folder: Path, env: Mapping[str, str] | None = None, settings: Sequence[str] = ()
    ) -> tuple[int, str]:
        """The exit code of `python -m coldstep …`, or of `python script.py …`, in `folder`; what it said on stderr.

        `settings` are modules that read the environment as they are imported: they read `env` again.
        """
        out, err = folder / "stdout", folder / "stderr"
        env = _environment() if env is None else dict(env)
        asked = {"arguments": arguments, "folder": str(folder), "env": env, "out": str(out), "err": str(err)}
        asked["settings"] = list(settings)
        self._connection.sendall(f"{json.dumps(asked)}\n".encode())
        code = int(self._answer(scenarios.TIMEOUT_S))
        return code, err.read_text()

    def end(self) -> None:
        """End it, and what it runs."""
        with contextlib.suppress(ProcessLookupError):
            if self._pid:  # else it has not even come so far as to tell it
                os.killpg(self._pid, signal.SIGKILL)
        self._lines.close()
        self._connection.close()

    def _answer(self, seconds: float) -> str:
        self._connection.settimeout(seconds)
        try:
            answer = self._lines.readline()
        except OSError:
            answer = ""
        if not answer:
            self.end()
        assert answer, f"no answer within {seconds:.0f} s, or the server died"
        return answer.strip()


def _start(address: str, stack: str, python: str, env: Mapping[str, str]) -> None:
    """Start the process that has imported the framework, unless another worker does that in this moment."""
    folder = tempfile.TemporaryDirectory(prefix="coldstep-server-")
    script = Path(folder.name, "server.pyc")
    _compile(python, Path(__file__).with_name("server.py"), script)
    process = subprocess.Popen(
        [python, str(script), address, _PROGRAM.format(_CALLS.get(stack, "pass")), *IMPORTS[stack]],
        env=_environment() | _TO_IMPORT.get(stack, {}) | env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    _started.append((process, folder))
    assert process.stdout is not None
    process.stdout.readline()


def server(stack: str, python: str, env: Mapping[str, str] | None = None) -> Server:
    """This thread's server for a stack, by one interpreter, which has imported the framework in `env`."""
    servers: dict[object, Server] = _mine.__dict__.setdefault("servers", {})
    key = stack, python, tuple(sorted((env or {}).items()))
    if key not in servers or not servers[key].alive:
        servers[key] = Server(stack, python, env or {})
    return servers[key]


@atexit.register
def end_all() -> None:
    """End every thread's servers; a process that this one has started ends with the last worker that it serves."""
    while _all:
        _all.pop().end()
    while _started:
        process, folder = _started.pop()
        with contextlib.suppress(subprocess.TimeoutExpired):  # what a test has left may hold its stdin
            process.communicate(timeout=scenarios.TIMEOUT_S)
        folder.cleanup()


def _compile(python: str, source: Path, to: Path) -> None:
    """As a file that is nobody's, by the Python that will read it: each version has a format of its own.

    The name is as that of the module below `python -m`, whose frames stand in what the frameworks log, too.
    """
    program = "import py_compile, sys; py_compile.compile(*sys.argv[1:], '<frozen runpy of server>', doraise=True)"
    subprocess.run([python, "-c", program, source, to], check=True)


def _environment() -> dict[str, str]:
    return {**os.environ, **scenarios.ENVIRONMENT}
