"""Whether a process is reached by its job's variable: by what the system shows of it, for nobody asks it."""

from __future__ import annotations

import glob
import os
import re
import shutil
import sys

import coldstep_shim
from coldstep_shim import FILE

# Linux: "7f03a000-7f03b000 r-xp 00001000 fe:00 123    /repo/.venv/lib/python3.11/site-packages/ray/_raylet.so"
_PACKAGES = re.compile(r" (/.*)/lib/python3[^/]*/(?:site|dist)-packages/")
_DOOR = "coldstep.pth"
_SHIM = os.path.join("coldstep_shim", "on_path")
NO_SITE = "-S"
"""The option with which Python looks into no folder for such a file."""


LOST = {
    "sudo": "sudo --preserve-env=COLDSTEP,COLDSTEP_JOB …",
    "docker, podman": "docker run -e COLDSTEP -e COLDSTEP_JOB …",
    "mpirun of Open MPI, on other hosts": "mpirun -x COLDSTEP -x COLDSTEP_JOB …",
    "a Ray cluster that runs already": 'ray.init(runtime_env={"env_vars": '
    '{key: os.environ[key] for key in os.environ if key.startswith("COLDSTEP")}})',
    "vLLM's Ray executors": "VLLM_RAY_EXTRA_ENV_VAR_PREFIXES_TO_COPY=COLDSTEP vllm serve …",
}
"""What loses the variable on the way to a process, and the line that keeps it."""


def doors() -> dict[str, bool]:
    """Which ways into the Pythons of this environment are open."""
    is_read = not (sys.flags.ignore_environment or sys.flags.isolated)
    return {"coldstep.pth": opens(sys.executable), "PYTHONPATH": is_read}


def has_door(pid: int) -> bool:
    """Whether a Python runs under the variable, and has coldstep to open its door."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            environment = dict(pair.split("=", 1) for pair in os.fsdecode(file.read()).split("\0") if "=" in pair)
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = os.fsdecode(file.read()).split("\0")
        interpreter = os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return False
    if not environment.get(FILE) or NO_SITE in words[1:2]:
        return False
    started = shutil.which(words[0], path=environment.get("PATH"))
    loaded = () if started else _loaded_by(pid)  # it has a title in the place of its command, as Ray's workers do
    return _SHIM in environment.get("PYTHONPATH", "") or opens(started or interpreter, interpreter, *loaded)


def _loaded_by(pid: int) -> set[str]:
    """The interpreters from whose packages a process has loaded libraries."""
    try:
        with open(f"/proc/{pid}/maps", "rb") as file:
            return {f"{folder}/bin/python" for folder in _PACKAGES.findall(os.fsdecode(file.read()))}
    except OSError:
        return set()


def use_shim() -> None:
    """Where this Python has no such file, as after an editable install, open the door of those below by their path."""
    if opens(sys.executable):
        return
    folder = os.path.join(os.path.dirname(os.path.abspath(coldstep_shim.__file__)), "on_path")
    paths = [each for each in [os.environ.get("PYTHONPATH", "")] if each]
    if folder not in os.pathsep.join(paths).split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join([folder, *paths])


def opens(*interpreters: str) -> bool:
    """Whether one of these, a Python or a name of it in an environment, has the file that opens the door."""
    folders = {glob.escape(os.path.dirname(os.path.dirname(each))) for each in interpreters}
    places = (f"{folder}/lib/python3*/{kind}-packages/{_DOOR}" for folder in folders for kind in ("site", "dist"))
    return any(map(glob.glob, places))
