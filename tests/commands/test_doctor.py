"""`coldstep doctor` tries what is installed, as a user would run it; a partial collector is said, and sends there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from coldstep import load
from coldstep.ahead.doctor_rows import CheckedCollector, CheckedTest, Checkup
from coldstep.blind_spots import Unseen
from coldstep.model import CollectorRow
from coldstep_collectors import doctor
from coldstep_collectors.support import SUPPORT
from coldstep_viewers.commands.machine.doctor import lines

CHECKS = {row.stack: row.module("checks").CHECKS for row in SUPPORT}

Done = subprocess.CompletedProcess[str]


def coldstep(*words: str, cwd: Path, env: dict[str, str] | None = None) -> Done:
    command = [sys.executable, "-m", "coldstep", *words]
    return subprocess.run(command, cwd=cwd, env=os.environ | (env or {}), capture_output=True, text=True, timeout=500)


@pytest.mark.jax
@pytest.mark.torch
@pytest.mark.tensorflow
def test_all_that_is_promised_is_told_here(tmp_path: Path) -> None:
    done = coldstep("doctor", "--json", cwd=tmp_path)
    found = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert (list(found), found["schema"]) == (
        ["schema", "versions", "collectors", "tests", "doors"],
        "coldstep-doctor/1",
    )
    assert {"python", "coldstep", "jax", "jaxlib", "torch", "tensorflow", "keras"} <= found["versions"].keys()
    states = {row["name"]: row["state"] for row in found["collectors"]}
    assert states.keys() >= {"jax", "xspace", "dynamo", "inductor", "kineto", "torch_xla", "process", "imports"}
    assert {states[name] for name in ("jax", "xspace", "dynamo", "inductor", "kineto", "tensorflow")} == {"attached"}
    tests = {row["name"]: row["ok"] for row in found["tests"]}
    assert tests.keys() >= {f"jax.{name}" for name in CHECKS["jax"]}
    assert tests.keys() >= {f"dynamo.{name}" for name in CHECKS["dynamo"]}
    assert tests.keys() >= {f"tensorflow.{name}" for name in CHECKS["tensorflow"]}
    assert all(tests.values()), found["tests"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.torch_xla
def test_what_torch_xla_promises_is_told(tmp_path: Path) -> None:
    trace, tests = doctor.try_stack(str(tmp_path), "torch_xla")
    assert trace is not None
    assert [(row.name, row.ok) for row in tests] == [(f"torch_xla.{name}", True) for name in CHECKS["torch_xla"]]


def test_a_framework_that_cannot_be_imported_fails_its_promises(tmp_path: Path) -> None:
    (tmp_path / "torch_xla").mkdir()  # no package, but a folder
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "__init__.py").write_text("raise ImportError('libsomething.so.12: cannot open')\n")
    program = """
import sys
from coldstep_collectors import doctor
doctor.BY_STACK = {name: doctor.BY_STACK[name] for name in ("jax", "torch_xla")}
sys.argv = ["coldstep", "doctor", "--json"]
from coldstep.__main__ import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (1, "")
    tests = json.loads(done.stdout)["tests"]
    assert [row["ok"] for row in tests] == [True, *(False for _ in CHECKS["jax"])]
    assert {row["text"] for row in tests[1:]} == {"ImportError: libsomething.so.12: cannot open"}


def test_a_wrong_command_line_is_2(tmp_path: Path) -> None:
    assert coldstep("doctor", "run.pftrace", cwd=tmp_path).returncode == 2


@pytest.fixture(scope="module")
def partial_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Done, Path]:
    """`coldstep run` of a program whose JAX does not tell all, by a Python that nobody tried."""
    folder = tmp_path_factory.mktemp("partial")
    (folder / "train.py").write_text(
        "from coldstep_collectors.jax._private import names as jax_names\n"
        "jax_names.IS_CLEAN.forms = ()  # as a version of JAX that does not tell\n"
        "import jax\n"
    )
    untried = (
        "import sys; from coldstep._util import pythons; pythons.untried.__defaults__ = ((3, 19),); "
        "from coldstep.__main__ import main; sys.argv = ['coldstep', 'run', 'train.py']; sys.exit(main())"
    )
    done = subprocess.run([sys.executable, "-c", untried], cwd=folder, capture_output=True, text=True, timeout=100)
    return done, folder / "train.pftrace"


@pytest.mark.jax
def test_a_run_with_a_partial_collector_sends_to_the_doctor(partial_run: tuple[Done, Path]) -> None:
    done, _ = partial_run
    said = [line for line in done.stderr.splitlines() if "not wholly attached" in line]
    assert (done.returncode, len(said)) == (0, 1), done.stderr
    assert said[0].startswith("coldstep: not wholly attached: jax; coldstep doctor shows")


@pytest.mark.jax
def test_a_run_on_a_partial_jax_or_an_untried_python_says_so_in_one_line(partial_run: tuple[Done, Path]) -> None:
    done, trace = partial_run
    first, *others = done.stderr.splitlines()
    assert "train.pftrace" in first
    assert f"jax {version('jax')} was observed only in part" in first
    told = "coldstep was not tried on Python 3.19, only on 3.11, 3.12, 3.13: what it reports may be incomplete"
    assert f"coldstep: {told}" in others
    assert told in load(trace).run.notes


def test_doctor_says_that_a_python_was_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    from coldstep._util import pythons

    found = Checkup({"python": "3.19.0"}, [], [CheckedTest("plain.steps", True, "2 steps")])
    assert not any("was not tried on" in line for line in lines(found))
    monkeypatch.setattr(pythons.untried, "__defaults__", ((3, 19),))
    assert any("coldstep was not tried on Python 3.19" in line for line in lines(found))


def test_what_is_missing_comes_with_the_version_that_has_it() -> None:
    profiler = Unseen("operators and kernels (this version of PyTorch has another profiler)")
    row = CollectorRow(0, "kineto", "partial", 0, "2.9.1", [profiler], [])
    assert doctor.advice(row, {"torch": "2.9.1"}) == ["PyTorch 2.12 and newer have it"]
    assert doctor.advice(row, {"torch": "99.0"}) == [
        "PyTorch has it up to 2.15: a newer coldstep may know the new name"
    ]
    breaks = Unseen("graph breaks and guard failures (this version of PyTorch has no structured trace)")
    both = CollectorRow(0, "kineto", "partial", 0, "2.4", [breaks, profiler], [])
    assert doctor.advice(both, {"torch": "2.4"}) == [
        "PyTorch 2.5 and newer have it (graph breaks and guard failures)",
        "PyTorch 2.12 and newer have it (operators and kernels)",
    ]
    found = Checkup(
        {"python": "3.11.7", "torch": "2.9.1"},
        [CheckedCollector("kineto", "partial", [profiler], ["PyTorch 2.12 and newer have it"])],
        [CheckedTest("dynamo.compile", False, "not reported")],
    )
    text = "\n".join(lines(found))
    assert "  kineto  partial" in text
    assert f"not observed: {profiler}" in text
    assert "what to do: PyTorch 2.12 and newer have it" in text
    assert "  FAILED  dynamo.compile  not reported" in text
    assert text.endswith("1 of 1 failed")
    assert not found.ok
