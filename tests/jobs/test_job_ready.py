"""A job is ready when its root says so: what its other processes compile after that is late."""

from __future__ import annotations

import subprocess
import textwrap
from pathlib import Path

import pytest

import coldstep
from coldstep_viewers.report.terminal import render
from jobs import kinds

SERVER = """
    import contextlib
    import multiprocessing
    import os
    import coldstep

    def engine(pipe):
        import jax
        import numpy
        step = jax.jit(lambda x: (x * 2).sum())
        pipe.send(float(step(numpy.ones(3))))
        for size in iter(pipe.recv, None):
            with coldstep.step("decode") if "STEPS" in os.environ else contextlib.nullcontext():
                pipe.send(float(step(numpy.ones(size))))
        if "ENGINE_READY" in os.environ:
            coldstep.ready("engine")

    if __name__ == "__main__":
        here, there = multiprocessing.Pipe()
        process = multiprocessing.get_context("spawn").Process(target=engine, args=(there,), name="EngineCore")
        process.start()
        here.recv()
        if "READY" in os.environ:
            coldstep.ready("server")
        for turn, size in enumerate((3, 4, 4, 4, 4, 4, None)):
            here.send(size and size + turn * ("NEVER" in os.environ))
            if size:
                print(here.recv() > 0)
        process.join()
"""


def checked(folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Runs the server, and asks for a verdict on it."""
    (folder / "server.py").write_text(textwrap.dedent(SERVER))
    done = kinds.run("coldstep", "run", "server.py", cwd=folder, **env)
    assert (done.stdout, done.returncode) == (b"True\n" * 6, 0), done.stderr
    verdict = kinds.run("coldstep", "check", "server.pftrace", "--ready", cwd=folder)
    return subprocess.CompletedProcess([], verdict.returncode, verdict.stdout.decode(), verdict.stderr.decode())


@pytest.mark.jax
def test_what_a_child_compiles_after_its_root_was_ready_is_late(tmp_path: Path) -> None:
    done = checked(tmp_path, READY="1")
    trace = coldstep.load(tmp_path / "server.pftrace")
    engine = next(row.index for row in trace.processes if row.name == "EngineCore")
    [server_row, engine_row] = sorted(trace.readiness, key=lambda row: row.process)
    assert (server_row.process, server_row.compiles_after) == (0, 0)
    assert (engine_row.process, engine_row.name, engine_row.ready_ns) == (engine, "server", server_row.ready_ns)
    [late] = engine_row.violations
    assert (late.cause, late.argument) == ("shape", "x")
    assert done.returncode == 1
    ready = trace.job_ready
    assert ready is not None
    assert (ready.by, ready.name, ready.process) == ("ready", "server", 0)
    [server_did, engine_did] = ready.processes
    assert (server_did.process, server_did.start_ns, server_did.ns) == (0, 0, ready.ns)
    assert engine_did.start_ns + engine_did.ns == ready.ns
    for did in ready.processes:
        waits = sum(row.ns for row in did.waiting)
        assert did.before_trace_ns + sum(did.phases.values()) + waits <= did.ns
    assert engine_did.phases["imports"] > 100_000_000
    assert {"xla.compile", "jax.trace"} <= {*engine_did.phases}
    assert server_did.waiting != []
    report = render(trace, 200)
    assert "when server called coldstep.ready()" in report
    assert "waited in Connection.recv" in report
    assert (
        "over budget: EngineCore: server: 1 compile after it, 0 allowed" in done.stdout or "EngineCore" in done.stdout
    )


@pytest.mark.jax
def test_a_process_that_does_not_say_when_it_is_ready_is_no_doubt_where_another_does(tmp_path: Path) -> None:
    done = checked(tmp_path, ENGINE_READY="1")
    assert done.returncode == 0, done.stdout


@pytest.mark.jax
def test_a_job_in_which_nobody_calls_ready_is_ready_when_its_steps_have_settled(tmp_path: Path) -> None:
    done = checked(tmp_path, STEPS="1")
    assert done.returncode == 2
    assert "coldstep.ready() was not called" in done.stdout
    trace = coldstep.load(tmp_path / "server.pftrace")
    engine = next(row.index for row in trace.processes if row.name == "EngineCore")
    settled = [row for row in trace.intervals if row.kind == "step"][2]
    ready = trace.job_ready
    assert ready is not None
    assert (ready.by, ready.name, ready.process) == ("settled", "decode", engine)
    began = min(row.start_ns - row.before_trace_ns for row in trace.processes)
    assert ready.ns == settled.start_ns - began
    assert "when EngineCore compiled nothing more in decode" in " ".join(render(trace, 200).split())


@pytest.mark.jax
def test_a_job_of_which_one_kind_of_step_never_settles_is_not_ready(tmp_path: Path) -> None:
    checked(tmp_path, STEPS="1", NEVER="1")
    trace = coldstep.load(tmp_path / "server.pftrace")
    assert [row.verdict for row in trace.settling] == ["not_settled"]
    assert trace.job_ready is None
    assert "Ready " not in render(trace, 200)
