"""The Pythons of this machine that run, by version: on the path, or where pyenv keeps them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VERSIONS = ("3.11", "3.12", "3.13")


def python_of(version: str) -> str | None:
    """The path of one that runs; None where none of that version does."""
    return next(filter(_runs, _places(version)), None)


def another() -> str | None:
    """One of another version than this."""
    mine = f"3.{sys.version_info.minor}"
    return next((path for each in (*VERSIONS, "3.14", "3.15") if each != mine and (path := python_of(each))), None)


def _places(version: str) -> Iterator[str]:
    yield from filter(None, [shutil.which(f"python{version}")])
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    yield from map(str, kept.glob(f"{version}.*/bin/python3"))


def _runs(python: str) -> bool:
    return subprocess.run([python, "-V"], capture_output=True, check=False).returncode == 0


def on(version: str, program: str, folder: Path) -> object:
    """What a program prints on a Python of that version, with this checkout and no framework."""
    python = python_of(version)
    if python is None:
        pytest.skip(f"no Python {version} runs here")
    path = folder / "program.py"
    path.write_text(program)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(str(ROOT / top) for top in ("tracer", "collectors"))}
    done = subprocess.run([python, path], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
