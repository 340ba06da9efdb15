"""Workers of Ray in a job, by programs that show themselves to the system as Ray's do; `make jobs` runs Ray itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import coldstep
from coldstep.job.reach import has_door
from jobs.kinds import PROGRAMS, run

_WORKER = """
import os, signal, time
from titled import show_as
show_as(b"ray::IDLE")
import jax
show_as(b"ray::Model.step")
double = jax.jit(lambda x: x * 2)
print([float(double(jax.numpy.ones(n)).sum()) for n in (3, 4)], flush=True)
time.sleep(0.1)
os.kill(os.getpid(), signal.SIGKILL)
"""
_FLAGS = ("--node-ip-address=192.0.2.2", "--session-name=session_2026-11-26_16-53-27_381471_9665")
_RECOMPILED = ("shape", "f32[3]", "f32[4]")


@pytest.mark.jax
def test_a_worker_is_named_after_its_actor_and_whole_though_it_is_ended_at_once(tmp_path: Path) -> None:
    (tmp_path / "default_worker.py").write_text(_WORKER)
    helper = tmp_path / "ray/dashboard/agent.py"
    helper.parent.mkdir(parents=True)
    helper.write_text("import time; time.sleep(1)")
    (tmp_path / "driver.py").write_text(
        "import subprocess, sys\n"
        f"subprocess.run([sys.executable, {str(helper)!r}], check=True)\n"
        f"print(subprocess.run([sys.executable, 'default_worker.py', *{_FLAGS}]).returncode)\n"
    )
    done = run("coldstep", "run", "driver.py", cwd=tmp_path, PYTHONPATH=str(PROGRAMS))
    assert done.stdout == b"[6.0, 8.0]\n-9\n", done.stderr
    assert b"not traced" not in done.stderr
    trace = coldstep.load(tmp_path / "driver.pftrace")
    assert not any("wrote no trace" in note for note in trace.run.notes)  # the helper is no process of the program's
    driver, worker = trace.processes
    assert (worker.name, worker.how, worker.parent, worker.ended) == ("Model", "ray", driver.index, "killed")
    assert worker.command == ["ray::Model.step"]
    assert all(row.outcome == "compiled" for row in trace.compiles)
    assert [(row.cause, row.before, row.after) for row in trace.recompiles] == [_RECOMPILED]
    assert [path.name for path in tmp_path.glob("driver-*")] == [f"driver-Model-{worker.pid}.pftrace"]


@pytest.mark.jax
def test_workers_that_have_the_variable_from_their_runtime_environment_are_one_job(tmp_path: Path) -> None:
    (tmp_path / "default_worker.py").write_text(_WORKER)
    for job, workers in (("01000000", 1), ("02000000", 2)):
        for _ in range(workers):
            words = ("python", "default_worker.py", *_FLAGS)
            done = run(*words, cwd=tmp_path, PYTHONPATH=str(PROGRAMS), COLDSTEP="run.pftrace", RAY_JOB_ID=job)
            assert done.stdout == b"[6.0, 8.0]\n", done.stderr
    assert len(list(tmp_path.glob("run-Model-*.pftrace"))) == 3
    trace = coldstep.load(tmp_path / "run.pftrace")
    assert [row.name for row in trace.processes] == ["Model", "Model"]
    assert [(row.process, row.cause) for row in trace.recompiles] == [(0, "shape"), (1, "shape")]


@pytest.mark.parametrize("variable", [{}, {"COLDSTEP": "run.pftrace"}])
def test_a_process_without_its_command_is_known_by_the_libraries_that_it_has_loaded(variable: dict[str, str]) -> None:
    program = "import titled, numpy; titled.show_as(b'ray::Model.step'); print(flush=True); input()"
    kept = {key: value for key, value in os.environ.items() if not key.startswith("COLDSTEP")} | variable
    words = [sys.executable, "-c", program]
    with subprocess.Popen(words, cwd=PROGRAMS, env=kept, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert has_door(process.pid) == bool(variable)
        process.communicate(b"\n")
