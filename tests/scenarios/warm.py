"""Programs run by a `server` of their stack: one for each thread that asks, for it runs one program at a time."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import scenarios

IMPORTS = {
    "jax": ["jax"],
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
_TO_IMPORT = {"torch_xla": {"TORCHINDUCTOR_COMPILE_THREADS": "1"}}
"""What it imports that in, beside what is there: torch_xla 2.8 brings Inductor, which would start its workers."""
_mine = threading.local()
_all: list[Server] = []


class Server:
    """A process that waits for programs to run."""

    def __init__(self, stack: str, python: str, env: Mapping[str, str]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="coldstep-server-")
        script = Path(self._folder.name, "server.pyc")
        _compile(python, Path(__file__).with_name("server.py"), script)
        self._process = subprocess.Popen(
            [python, str(script), *IMPORTS[stack]],
            env=_environment() | _TO_IMPORT.get(stack, {}) | env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        _all.append(self)
        self._answer(scenarios.TIMEOUT_S)

    @property
    def alive(self) -> bool:
        """Whether it can run another program."""
        return self._process.poll() is None

    def run(
        self, arguments: list[str], folder: Path, env: Mapping[str, str] | None = None, settings: Sequence[str] = ()
    ) -> tuple[int, str]:
        """The exit code of `python -m coldstep …`, or of `python script.py …`, in `folder`; what it said on stderr.

        `settings` are modules that read the environment as they are imported: they read `env` again.
        """
        assert self._process.stdin is not None
        out, err = folder / "stdout", folder / "stderr"
        env = _environment() if env is None else dict(env)
        asked = {"arguments": arguments, "folder": str(folder), "env": env, "out": str(out), "err": str(err)}
        asked["settings"] = list(settings)
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        code = int(self._answer(scenarios.TIMEOUT_S))
        return code, err.read_text()

    def end(self) -> None:
        """End it, and what it runs."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._folder.cleanup()

    def _answer(self, seconds: float) -> str:
        assert self._process.stdout is not None
        late = threading.Timer(seconds, self.end)
        late.start()
        try:
            answer = self._process.stdout.readline()
        finally:
            late.cancel()
        assert answer, f"no answer within {seconds:.0f} s, or the server died"
        return answer.strip()


def server(stack: str, python: str, env: Mapping[str, str] | None = None) -> Server:
    """This thread's server for a stack, by one interpreter, which has imported the framework in `env`."""
    servers: dict[object, Server] = _mine.__dict__.setdefault("servers", {})
    key = stack, python, tuple(sorted((env or {}).items()))
    if key not in servers or not servers[key].alive:
        servers[key] = Server(stack, python, env or {})
    return servers[key]


@atexit.register
def end_all() -> None:
    """End every thread's servers."""
    while _all:
        _all.pop().end()


def _compile(python: str, source: Path, to: Path) -> None:
    """As a file that is nobody's, by the Python that will read it: each version has a format of its own.

    The name is as that of the module below `python -m`, whose frames stand in what the frameworks log, too.
    """
    program = "import py_compile, sys; py_compile.compile(*sys.argv[1:], '<frozen runpy of server>', doraise=True)"
    subprocess.run([python, "-c", program, source, to], check=True)


def _environment() -> dict[str, str]:
    return {**os.environ, **scenarios.ENVIRONMENT}
