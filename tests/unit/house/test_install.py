"""Installed as people install it: sdist, wheel, a clean environment; traces are read where there is no framework, and
nothing that only Linux has."""

from __future__ import annotations

import configparser
import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_string
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TRACES = ROOT / "tests/traces"
BASE = {"click", "jinja2", "markupsafe", "psutil", "rich", "markdown-it-py", "mdurl", "pygments"}
"""What the base install brings: what commands and pages need. Of all this a framework pins nothing."""
ELSEWHERE = """
import os, sys, time

LINUX_ONLY = {"fcntl", "resource", "pwd", "grp", "spwd", "termios", "tty", "pty", "syslog", "readline", "crypt"}

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name in LINUX_ONLY:
            raise ModuleNotFoundError(f"No module named {name!r}, as elsewhere", name=name)

for name in LINUX_ONLY:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Finder())
for owner, names in ((os, ("fork", "register_at_fork", "O_CLOEXEC", "sysconf", "getuid", "sched_getaffinity")),
                     (time, ("CLOCK_BOOTTIME", "CLOCK_MONOTONIC", "clock_gettime_ns"))):
    for name in names:
        if hasattr(owner, name):
            delattr(owner, name)
"""
"""A sitecustomize that takes away what other systems do not have."""


def run(*words: str | Path, cwd: Path, check: bool = True, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        list(map(str, words)), cwd=cwd, env=os.environ | (env or {}), capture_output=True, text=True, timeout=300
    )
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done.stdout if check else f"{done.returncode} {done.stderr}"


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist of this tree, and the wheel that is built of it."""
    tree, made = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("dist")
    for name in run("git", "ls-files", "-co", "--exclude-standard", cwd=ROOT).splitlines():
        if (ROOT / name).is_file() and not name.startswith(("tests/", "docs/")):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_bytes((ROOT / name).read_bytes())
    build = "import sys, setuptools.build_meta as backend; backend.build_sdist(sys.argv[1])"
    run(sys.executable, "-c", build, made, cwd=tree)
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", made,
        *made.glob("*.tar.gz"), cwd=tree)  # fmt: skip
    return made


@pytest.fixture(scope="module")
def clean(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment that has the wheel, and what that asks for."""
    place = tmp_path_factory.mktemp("clean")
    run(sys.executable, "-m", "venv", "--without-pip", place, cwd=place)
    run(sys.executable, "-m", "pip", "--python", place, "install", "-q", *dist.glob("*.whl"), cwd=place)
    return place / "bin"


def test_the_wheel_has_every_module_and_nothing_else(dist: Path) -> None:
    [wheel] = dist.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    tops = {"coldstep": "tracer", "coldstep_collectors": "collectors", "coldstep_viewers": "viewers"}
    assert "coldstep.pth" in names  # at the top, so that it lands in site-packages
    shipped = {name for name in names if not name.partition("/")[0].endswith(".dist-info")}
    listed = run("git", "ls-files", "-co", "--exclude-standard", *tops.values(), cwd=ROOT).splitlines()
    assert shipped == {name.partition("/")[2] for name in listed if (ROOT / name).is_file()}
    [sdist] = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert inside >= {"LICENSE", "README.md", "setup.cfg", "pyproject.toml"}


def test_the_metadata_tells_what_is_true(dist: Path) -> None:
    [wheel] = dist.glob("*.whl")
    archive = zipfile.ZipFile(wheel)
    [metadata] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
    told = message_from_string(archive.read(metadata).decode())
    needed = [row for row in told.get_all("Requires-Dist", []) if "extra ==" not in row]
    assert {row.partition(">")[0] for row in needed} == {"click", "jinja2", "psutil", "rich"}
    assert told["Requires-Python"] == ">=3.11"
    pythons = {row.rpartition(" ")[2] for row in told.get_all("Classifier", []) if " Python :: 3." in row}
    assert pythons == {"3.11", "3.12", "3.13"}
    assert told.get_payload() == (ROOT / "README.md").read_text()
    [entries] = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
    points = configparser.ConfigParser()
    points.read_string(archive.read(entries).decode())
    assert {"coldstep.collectors", "coldstep.viewers", "coldstep.logs", "coldstep.foresight"} <= set(points.sections())


def test_the_base_install_brings_no_package_that_a_framework_pins(clean: Path) -> None:
    pip = (sys.executable, "-m", "pip", "--python", clean / "python")
    listed = json.loads(run(*pip, "list", "--format", "json", cwd=clean))
    assert {row["name"].lower().replace("_", "-") for row in listed} - {"coldstep"} == BASE


def test_a_trace_is_made_checked_and_read_without_a_framework(clean: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import coldstep\nfor _ in range(4):\n    with coldstep.step():\n        pass\n")
    run(clean / "coldstep", "run", "train.py", cwd=tmp_path)
    assert "settled at step 0" in run(clean / "coldstep", "report", "train.pftrace", cwd=tmp_path)
    checkup = json.loads(run(clean / "coldstep", "doctor", "--json", cwd=tmp_path))
    assert [(row["name"], row["ok"]) for row in checkup["tests"]] == [("plain.trace", True)]
    assert checkup["versions"].keys() == {"python", "coldstep"}


def reading(bin: Path, folder: Path, elsewhere: Path | None) -> list[str]:
    """What the commands that read say of kept traces, where `elsewhere` is on the path."""
    env = {"PYTHONPATH": str(elsewhere)} if elsewhere else {}
    jax, torch = TRACES / "jax_train.pftrace", TRACES / "torch_train.pftrace"
    (folder / "compiles.log").write_text(
        "Compiling jit(step) with global shapes and types (ShapedArray(float32[4]),). Argument mapping: ().\n"
        "Finished XLA compilation of jit(step) in 0.500 sec\n"
    )
    coldstep = str(bin / "coldstep")
    return [
        run(coldstep, "report", jax, cwd=folder, env=env),
        run(coldstep, "report", torch, "--json", cwd=folder, env=env),
        run(coldstep, "report", jax, "--html", "page.html", cwd=folder, env=env),
        run(coldstep, "check", torch, "--max-recompiles", "99", cwd=folder, env=env),
        run(coldstep, "diff", jax, torch, cwd=folder, env=env),
        re.sub(r"\d+-\d+-\d+ \d+:\d+:\d+", "now", run(coldstep, "log", "compiles.log", cwd=folder, env=env)),
        run(coldstep, "open", "--help", cwd=folder, env=env),
    ]


def test_reading_needs_nothing_that_only_linux_has(clean: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "sitecustomize.py").write_text(ELSEWHERE)
    missing = run(clean / "python", "-c", "import fcntl", cwd=tmp_path, check=False, env={"PYTHONPATH": str(elsewhere)})
    assert "as elsewhere" in missing
    assert reading(clean, tmp_path, elsewhere) == reading(clean, tmp_path, None)


def test_many_traces_are_asked_there_too(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "sitecustomize.py").write_text(ELSEWHERE)
    words = (sys.executable, "-m", "coldstep", "sql", TRACES / "*_train.pftrace", "select count(*) as n from compiles")
    caches = ({"XDG_CACHE_HOME": str(tmp_path / name)} for name in ("there", "here"))
    there = run(*words, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path / "elsewhere")} | next(caches))
    assert there == run(*words, cwd=tmp_path, env=next(caches))
