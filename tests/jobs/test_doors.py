"""The two ways into a Python of a job: the line that a wheel brings, and a folder on PYTHONPATH."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from coldstep import load
from coldstep.ahead.doctor_rows import CheckedTest, Checkup
from coldstep.job.reach import doors, use_shim
from coldstep_viewers.commands.machine.doctor import lines

SHIM = Path(__file__).parents[2] / "tracer/coldstep_shim/on_path"
LINE = Path(__file__).parents[2] / "tracer/coldstep.pth"
OPEN = "import sys; print('coldstep_shim.door' in sys.modules)"
QUIET = "import sys; sys.exit(any(name.startswith('coldstep') for name in sys.modules))"


def python(*words: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("COLDSTEP", "PYTHONPATH"))}
    return subprocess.run([sys.executable, *words], cwd=cwd, env=kept | env, capture_output=True, text=True, timeout=60)


def test_the_line_is_one_and_looks_at_one_variable(tmp_path: Path) -> None:
    [line] = LINE.read_text().splitlines()
    assert line.startswith("import os; os.environ.get(")
    program = f"exec({line!r}); {QUIET}"
    assert python("-S", "-c", program, cwd=tmp_path).returncode == 0


def test_a_door_that_opens_changes_nothing_that_a_program_sees(tmp_path: Path) -> None:
    seen = "import os, sys; print(sys.path, sys.argv, sorted(key for key in os.environ if 'COLDSTEP' not in key))"
    plain = python("-c", seen, cwd=tmp_path, PYTHONPATH="mine")
    opened = python("-c", seen, cwd=tmp_path, PYTHONPATH="mine", COLDSTEP="run.pftrace")
    assert (opened.stdout, opened.stderr) == (plain.stdout, plain.stderr)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("variable", [{}, {"COLDSTEP": "run.pftrace"}])
def test_the_programs_own_sitecustomize_runs_once_and_its_errors_are_its_own(
    tmp_path: Path, variable: dict[str, str]
) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own/sitecustomize.py").write_text(
        "import sys; print('own', __name__, __file__.endswith('own/sitecustomize.py'))"
    )
    path = os.pathsep.join([str(SHIM), "own"])
    done = python("-c", "import sitecustomize", cwd=tmp_path, PYTHONPATH=path, **variable)
    assert done.stdout == "own sitecustomize True\n"
    (tmp_path / "own/sitecustomize.py").write_text("raise ValueError('its own')")
    with_ours = python("-c", "pass", cwd=tmp_path, PYTHONPATH=path, **variable)
    assert "ValueError: its own" in with_ours.stderr


def test_the_folder_opens_the_door_where_the_line_does_not(tmp_path: Path) -> None:
    """As after an editable install: here the site's folder is looked into only after the door was looked for."""
    program = f"import site, sys; sys.path.insert(0, {str(SHIM.parents[1])!r}); site.execsitecustomize(); {OPEN}"
    done = python("-S", "-c", program, cwd=tmp_path, COLDSTEP="run.pftrace", PYTHONPATH=str(SHIM))
    assert done.stdout == "True\n", done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["from multiprocessing.resource_tracker import main"],
        ["pass", "torch/_inductor/compile_worker/__main__.py"],
        ["pass", "site-packages/ray/_private/log_monitor.py"],
    ],
)
def test_helpers_that_run_no_code_of_the_programs_stay_as_they_are(tmp_path: Path, words: list[str]) -> None:
    program = f"{words[0]}; import sys; print([type(each).__name__ for each in sys.meta_path].count('Door'))"
    done = python("-c", program, *words[1:], cwd=tmp_path, COLDSTEP="run.pftrace")
    assert done.stdout == "0\n", done.stderr


def test_a_finder_that_changes_a_loader_works_under_the_door(tmp_path: Path) -> None:
    """As vLLM's, which sets `exec_module` of what it has found; to find a framework is not to import it."""
    (tmp_path / "jax.py").write_text("value = 1")
    program = """
import sys
from importlib.util import find_spec
spec = find_spec("jax")
kind = type(spec.loader).__name__
seen = []

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "jax":
            sys.meta_path.remove(self)
            spec = find_spec(name)
            real = spec.loader.exec_module
            spec.loader.exec_module = lambda module: (seen.append(module.__name__), real(module))[1]
            return spec

threads = __import__("threading").active_count()
sys.meta_path.insert(0, Finder())
import jax
print(kind, threads, seen, jax.value, type(jax.__loader__).__name__, "create_module" in vars(jax.__loader__))
"""
    (tmp_path / "program.py").write_text(program)
    done = python("program.py", cwd=tmp_path, COLDSTEP="run.pftrace")
    assert done.stdout == "SourceFileLoader 1 ['jax'] 1 SourceFileLoader False\n", done.stderr


def begun(tmp_path: Path, program: str, **env: str) -> str:
    """Whether a trace goes on once the program has imported a module of its own."""
    (tmp_path / "slow.py").write_text("import time; time.sleep(0.3)")
    (tmp_path / "program.py").write_text(program)
    done = python("program.py", cwd=tmp_path, COLDSTEP="run.pftrace", **env)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


GOES_ON = "import sys; print('coldstep.session' in sys.modules)"


def test_a_rank_is_watched_from_its_first_import_of_a_package(tmp_path: Path) -> None:
    program = "import slow, jax; jax.jit(lambda x: x + 1)(1.0)"
    begun(tmp_path, program, RANK="0", JAX_PLATFORMS="cpu")
    [file] = tmp_path.glob("*.pftrace")
    before = load(file).intervals[0]
    assert before.phases["import.slow"] >= 0.3e9
    file.unlink()
    begun(tmp_path, program, JAX_PLATFORMS="cpu")
    [file] = tmp_path.glob("*.pftrace")
    assert "import.slow" not in load(file).intervals[0].phases


@pytest.mark.parametrize(
    ("program", "env"),
    [
        (f"import slow; {GOES_ON}", {}),  # no rank
        (f"import json, tomllib, unittest.mock; {GOES_ON}", {"RANK": "0"}),  # Python's own
        (f"import importlib.util; importlib.util.find_spec('slow'); {GOES_ON}", {"RANK": "0"}),  # it is only looked for
        ("import subprocess, sys; sys.exit(subprocess.run([sys.executable, 'below.py']).returncode)", {"RANK": "0"}),
    ],
)
def test_what_is_no_rank_or_imports_no_package_is_not(tmp_path: Path, program: str, env: dict[str, str]) -> None:
    (tmp_path / "below.py").write_text(f"import slow; {GOES_ON}")  # it inherits RANK
    assert begun(tmp_path, program, **env) == "False\n"


def test_what_imports_vllm_is_watched_before_vllm_imports_torch(tmp_path: Path) -> None:
    """Its engine and its workers are no ranks of a launcher, and torch takes a second of their start."""
    (tmp_path / "vllm.py").write_text("import sys\nprint('coldstep.session' in sys.modules)")
    assert begun(tmp_path, "import slow, vllm") == "True\n"


def test_a_rank_that_imports_coldstep_first_has_one_coldstep(tmp_path: Path) -> None:
    program = "import coldstep, slow, sys; from coldstep import session; print(session.active() is not None)"
    assert begun(tmp_path, program, RANK="0") == "True\n"


def test_a_ranks_import_that_fails_is_the_programs_own_error(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("raise ImportError('its own')")
    program = "import traceback\ntry:\n    import broken\nexcept ImportError:\n    print(traceback.format_exc())"
    plain = begun(tmp_path, program)
    assert begun(tmp_path, program, RANK="0") == plain


def test_doctor_shows_which_processes_are_reached_and_what_keeps_the_variable() -> None:
    text = "\n".join(lines(Checkup({"python": "3.11"}, [], [CheckedTest("plain.trace", True, "")])))
    assert "child processes: " in text
    assert "COLDSTEP=FILE" in text
    assert "sudo --preserve-env=COLDSTEP,COLDSTEP_JOB" in text
    assert set(doors()) == {"coldstep.pth", "PYTHONPATH"}


def test_a_folder_on_the_path_stands_in_for_a_line_that_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin/python"))
    monkeypatch.setenv("PYTHONPATH", "mine")
    use_shim()
    use_shim()
    assert os.environ["PYTHONPATH"] == os.pathsep.join([str(SHIM), "mine"])
    (tmp_path / "lib/python3.11/site-packages").mkdir(parents=True)
    (tmp_path / "lib/python3.11/site-packages/coldstep.pth").touch()
    monkeypatch.setenv("PYTHONPATH", "mine")
    use_shim()
    assert os.environ["PYTHONPATH"] == "mine"
