"""The Pythons of this machine that run, by version: on the path, or where pyenv keeps them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

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
