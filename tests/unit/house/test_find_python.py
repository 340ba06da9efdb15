"""Which Python make builds its environments with, on machines with others, and with none."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SHIM = "echo 'pyenv: not found' >&2; exit 127"  # as a version manager leaves on PATH for each version that it has


def machine(folder: Path, pythons: Mapping[str, str]) -> dict[str, str]:
    """The environment of a machine whose only Pythons are these: by place, what each answers."""
    for place, answer in pythons.items():
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{answer}\n")
        path.chmod(0o755)
    tools = folder / "tools"
    tools.mkdir()
    for tool in ("sh", "grep", "make"):
        (tools / tool).symlink_to(next(path for path in (Path("/usr/bin", tool), Path("/bin", tool)) if path.exists()))
    return {"PATH": f"{folder / 'bin'}{os.pathsep}{tools}", "HOME": str(folder)}


@pytest.mark.parametrize(
    ("pythons", "chosen"),
    [
        ({"bin/python3": "echo 3.12", "bin/python3.13": "echo 3.13"}, "python3"),
        ({"bin/python3": "echo 3.9", "bin/python3.11": "echo 3.11", "bin/python3.13": SHIM}, "python3.11"),
        (
            {"bin/python3": SHIM, "bin/python3.13": SHIM, ".pyenv/versions/3.13.0/bin/python3.13": "echo 3.13"},
            ".pyenv/versions/3.13.0/bin/python3.13",
        ),
        ({"bin/python3": "echo 3.14", "bin/python3.12": "echo 3.12", "bin/python3.11": "echo 3.11"}, "python3.12"),
    ],
)
def test_make_takes_the_newest_python_that_runs(tmp_path: Path, pythons: dict[str, str], chosen: str) -> None:
    """python3 comes first where it is one that coldstep runs on; a shim that fails is none."""
    found = subprocess.run(
        [ROOT / "requirements" / "find_python"], env=machine(tmp_path, pythons), capture_output=True, text=True
    )
    assert found.stdout.strip().removeprefix(f"{tmp_path}/") == chosen


@pytest.mark.parametrize(
    ("wanted", "chosen"), [(["3.13"], ""), (["3.13", "3.11"], "python3.11"), (["3.12"], "python3.12")]
)
def test_a_version_is_looked_for_where_one_is_named(tmp_path: Path, wanted: list[str], chosen: str) -> None:
    """python3 is then no better than another."""
    pythons = {"bin/python3": "echo 3.12", "bin/python3.12": "echo 3.12", "bin/python3.11": "echo 3.11"}
    found = subprocess.run(
        [ROOT / "requirements" / "find_python", *wanted], env=machine(tmp_path, pythons), capture_output=True, text=True
    )
    assert (found.stdout.strip(), found.returncode) == (chosen, 0 if chosen else 1)


def test_a_machine_without_any_gets_one_line(tmp_path: Path) -> None:
    """It names what to install."""
    environment = machine(tmp_path, {"bin/python3": "echo 3.9"})
    made = subprocess.run(["make", "-C", ROOT, "venv"], env=environment, capture_output=True, text=True)
    lines = [line for line in made.stderr.splitlines() if line]
    assert made.returncode == 2
    assert len(lines) == 1
    assert "no Python 3.11, 3.12 or 3.13 runs here; try: sudo apt-get install python3.11" in lines[0]
