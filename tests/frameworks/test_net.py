"""What compiled by a route that nobody watched, and processes that nobody traced: what is said, and what is not."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import program
import pytest
from click.testing import CliRunner, Result

import coldstep
from coldstep import session
from coldstep.analysis.derive import analyse
from coldstep.loading import read
from coldstep.model import Ready, Trace
from coldstep_viewers.commands import cli
from coldstep_viewers.report.headline import headline
from coldstep_viewers.report.html import page
from coldstep_viewers.report.terminal import render

CLAIMS = re.compile(r"nothing compiled|settled at|within budget|\b0 recompiles|Nothing: no recompile|no graph break")
"""What must not be read of a run in which not all was seen."""


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has imported no framework, whatever other tests imported."""
    for name in ("jax", "tensorflow", "torch", "torch_xla"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def check(*words: str | Path) -> Result:
    return CliRunner().invoke(cli.main, ["check", *map(str, words)], catch_exceptions=False)


def assert_claims_nothing(path: Path) -> None:
    """No text of the trace says that nothing was there, and no budget is kept."""
    trace = coldstep.load(path)
    done = check(path, "--max-recompiles", "0")
    for text in (headline(trace), render(trace), done.stdout):
        assert CLAIMS.search(text) is None, text
    assert "Nothing: no recompile" not in page(trace)
    assert done.exit_code == 2
    assert done.stdout.startswith("could not check: ")
    assert all(row.verdict != "settled" and row.why for row in trace.settling)
    assert any(row.kind == "blind" for row in trace.findings)


NO_HOOK = """
    import coldstep
    import torch
    from coldstep_collectors.torch._private import frames

    frames.compiling_frame = lambda: None  # as where PyTorch compiles in another way
    compiled = torch.compile(lambda x: x + 1, backend="eager")
    with coldstep.trace("run.pftrace"):
        for _ in range(6):
            with coldstep.step():
                compiled(torch.ones(3))
"""


@pytest.mark.torch
def test_a_graph_that_only_pytorch_counted_is_not_nothing(tmp_path: Path) -> None:
    program.run(NO_HOOK, tmp_path, stack="torch")
    assert_claims_nothing(tmp_path / "run.pftrace")
    [row] = [row for row in coldstep.load(tmp_path / "run.pftrace").collectors if row.name == "dynamo"]
    assert (row.state, row.missing) == ("partial", ["1 graph that PyTorch counted (no hook was called for any)"])


# --- compilers ----------------------------------------------------------------------------------------------------

OTHER_ROUTE = """
    import coldstep
    import torch
    from functorch.compile import aot_function
    from torch.utils.data import DataLoader

    if __name__ == "__main__":
        with coldstep.trace("loader.pftrace"):
            assert len(list(DataLoader(torch.arange(4), num_workers=1))) == 4
        def chain(x):  # long enough to take its 100 ms on any machine
            for _ in range(40):
                x = x.sin() * x
            return x.sum()

        step = aot_function(chain, fw_compiler=lambda gm, _: gm)
        with coldstep.trace("route.pftrace"):
            for _ in range(4):
                with coldstep.step():
                    step(torch.ones(8, requires_grad=True))
        try:
            with coldstep.expect_no_recompile():
                aot_function(chain, fw_compiler=lambda gm, _: gm)(torch.ones(9, requires_grad=True))
        except RuntimeError as error:
            print(error)
"""


@pytest.fixture(scope="module")
def routes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("routes")
    (folder / "said.txt").write_text(program.run(OTHER_ROUTE, folder, stack="torch").stdout)
    return folder


@pytest.mark.torch
def test_what_compiles_by_a_route_that_has_no_compiles_is_told_and_nothing_is_claimed(routes: Path) -> None:
    path = routes / "route.pftrace"
    trace = coldstep.load(path)
    assert trace.compiles == []
    said = r"[\d.]+ m?s of compiling by a route that was not seen: AOTAutograd tracing"
    assert re.search(said, headline(trace))
    [blind] = [row for row in trace.findings if row.kind == "blind"]
    assert re.match(said, blind.text)
    assert re.match(f"could not check: {said}", check(path, "--settle-by", "1").stdout)
    assert_claims_nothing(path)


@pytest.mark.torch
def test_a_block_that_compiles_by_such_a_route_is_not_one_without_recompiles(routes: Path) -> None:
    said = (routes / "said.txt").read_text()
    assert re.match(r"expect_no_recompile\(\) did not see everything: [\d.]+ m?s of compiling by a route", said), said


@pytest.mark.torch
def test_of_such_a_run_nothing_is_foretold(routes: Path) -> None:
    done = CliRunner().invoke(cli.main, ["cache", str(routes / "route.pftrace")], catch_exceptions=False)
    assert "cannot be foretold: " in done.stdout
    assert "would take about" not in done.stdout
    both = [str(routes / "route.pftrace")] * 2
    assert "neither asked" not in CliRunner().invoke(cli.main, ["cache", *both], catch_exceptions=False).stdout


def test_a_compiler_that_ran_below_is_told_until_a_row_names_it(tmp_path: Path) -> None:
    code = '#include <iostream>\n#include <regex>\nint main() { return std::regex_match("x", std::regex("x")); }\n'
    (tmp_path / "kernel.cpp").write_text(code)
    path = tmp_path / "run.pftrace"
    with coldstep.trace(path, collectors=["process"]):
        compiler = subprocess.Popen(["g++", "-o", "kernel.out", "kernel.cpp"], cwd=tmp_path)
        while compiler.poll() is None:  # for what is waited for is a build, which has a row
            time.sleep(0.01)
    trace = coldstep.load(path)
    assert re.search(r"of compiling by a route that was not seen: .*\b(g\+\+|cc1plus)", headline(trace))
    assert_claims_nothing(path)


@pytest.mark.torch
def test_a_diff_a_comparison_and_slow_steps_claim_nothing_of_such_a_run(routes: Path) -> None:
    path = str(routes / "route.pftrace")
    for words in (["diff", path, path], ["compare", path]):
        done = CliRunner().invoke(cli.main, words)
        assert "neither run compiled" not in done.stdout
        assert CLAIMS.search(done.stdout) is None
        assert "compiled nothing" not in done.stdout


@pytest.mark.jax
def test_less_than_100_ms_is_no_compile_and_what_came_before_ready_is_none_after_it(bare: None, tmp_path: Path) -> None:
    from coldstep.model import Unplaced

    def after(*rows: Unplaced, ready_ns: int = 0) -> Trace:
        trace = read(path)
        trace.unplaced[:] = rows
        trace.ready[:] = [Ready(0, "ready", ready_ns, None)]
        return analyse(trace)

    path = tmp_path / "run.pftrace"
    with coldstep.trace(path, collectors=["process"]):
        pass
    row = Unplaced(0, "dynamo.trace", 50, 99_000_000, 99_000_000)
    assert headline(after(row)).endswith("nothing compiled after ready")
    said = headline(after(row, replace(row, work_ns=1_000_000)))
    assert said.endswith("seen: Dynamo tracing); what compiled after ready is not known")
    twice = [row, replace(row, start_ns=200_000_000)]
    assert after(*twice).readiness[0].why is not None
    assert after(*twice, ready_ns=400_000_000).readiness[0].why is None


@pytest.mark.torch
def test_the_hashing_of_triton_for_a_caches_key_is_no_compile(tmp_path: Path) -> None:
    dynamo = pytest.importorskip("torch._dynamo.utils")
    with coldstep.trace(tmp_path / "run.pftrace", collectors=["dynamo", "inductor"]):
        with dynamo.dynamo_timed("CacheBase.get_system.triton_key", log_pt2_compile_event=True):
            time.sleep(0.2)
        with dynamo.dynamo_timed("compile_file", log_pt2_compile_event=True):
            time.sleep(0.02)
    trace = coldstep.load(tmp_path / "run.pftrace")
    assert trace.intervals[0].phases["inductor.cache"] >= 200_000_000
    assert [row.what for row in trace.unplaced] == ["inductor.cpp"]


# --- processes ----------------------------------------------------------------------------------------------------


@pytest.mark.torch
def test_workers_of_a_loader_that_are_forks_only_load(routes: Path) -> None:
    path = routes / "loader.pftrace"
    trace = coldstep.load(path)
    [note] = [note for note in trace.run.notes if "not traced" in note]
    assert "what was compiled there" not in note
    assert check(path, "--max-recompiles", "0").exit_code == 0


CHILDREN = """
    import multiprocessing, os, subprocess, sys, time

    import coldstep

    def work():
        import jax
        time.sleep(1.5)

    if __name__ == "__main__":
        with coldstep.trace("run.pftrace"):
            child = multiprocessing.get_context("spawn").Process(target=work)
            child.start()
            code = "import jax, time; time.sleep(1.5)"
            subprocess.run([sys.executable, "-c", code, "--token=hush"], check=True)
            child.join()
            subprocess.run(["git", "--version"], check=True)
            subprocess.run([sys.executable, "-c", "pass"], check=True)
"""
PREFORK = """
    import os, time

    import jax

    import coldstep

    with coldstep.trace("run.pftrace"):
        coldstep.ready()
        for _ in range(2):
            if not (child := os.fork()):
                time.sleep(0.05)
                os._exit(0)
            os.waitpid(child, 0)
"""


@pytest.mark.jax
def test_children_that_imported_a_framework_are_told_and_keep_check_from_passing(tmp_path: Path) -> None:
    program.run(CHILDREN, tmp_path)
    path = tmp_path / "run.pftrace"
    trace = coldstep.load(path)
    said = "2 child processes imported jax and were not traced"
    assert check(path, "--max-recompiles", "0").stdout.startswith(f"could not check: {said} (--allow-untraced")
    assert headline(trace).endswith(f"nothing compiled in this process; {said}")
    text = " ".join(render(trace, width=400).split())
    assert text.index("Processes below that were not traced (2)") < text.index("Where the time went")
    assert re.search(r"time\.sleep\(1\.5\) --token=hidden \(process \d+, imported jax, \d\S* m?s of processor", text)
    assert "Mark them with" not in text  # the work was done elsewhere
    [blind] = [row for row in trace.findings if row.kind == "blind"]
    assert len(blind.evidence) == 2
    allowed = check(path, "--max-recompiles", "0", "--allow-untraced")
    assert (allowed.exit_code, allowed.stdout) == (0, "within budget: 0 recompiles, 0 allowed\n")


@pytest.mark.jax
def test_workers_that_a_ready_master_forks_are_not_ready_by_that(tmp_path: Path) -> None:
    program.run(PREFORK, tmp_path, stack="jax")
    path = tmp_path / "run.pftrace"
    done = check(path, "--ready")
    assert done.exit_code == 2
    assert done.stdout.startswith("could not check: 2 child processes imported jax and were not traced")
    assert "what compiled after ready is not known" in headline(coldstep.load(path))
    assert check(path, "--ready", "--allow-untraced").exit_code == 0


def test_a_process_that_has_a_trace_beside_its_parents_was_traced(bare: None, tmp_path: Path) -> None:
    from coldstep.model import Child

    path = tmp_path / "run.pftrace"
    with coldstep.trace(path, collectors=[]):
        pass
    trace = read(path)
    child = Child(0, 4711, "python3", "python3 worker.py", 0, 10**9, 10**9, "torch")
    trace.children[:] = [child]
    assert "imported torch" in headline(analyse(trace))
    own = read(path)
    own.children[:] = [replace(child, pid=own.processes[0].pid)]
    assert "imported torch" not in headline(analyse(own))


def test_a_trace_of_before_that_only_notes_such_processes_does_not_pass(bare: None, tmp_path: Path) -> None:
    path = tmp_path / "run.pftrace"
    said = "2 other Python processes ran below this one and are not traced"
    with coldstep.trace(path, collectors=[]):
        now = session.active()
        assert now is not None
        now.note(f"{said}: what was compiled there, and what a wait for it was for, is not known.")
    done = check(path, "--max-recompiles", "0")
    assert (done.exit_code, done.stdout.splitlines()[0]) == (
        2,
        f"could not check: {said} (--allow-untraced allows that)",
    )
    assert check(path, "--max-recompiles", "0", "--allow-untraced").exit_code == 0


def test_check_says_which_workers_called_ready_and_which_did_not(bare: None, tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.pftrace" for name in ("master", "one", "two")]
    for path in paths:
        with coldstep.trace(path, collectors=[]):
            if path.stem != "master":
                coldstep.ready()
    done = check("--ready", *paths)
    assert done.exit_code == 2
    [said] = [line for line in done.stdout.splitlines() if line.startswith("could not check: ")]
    assert said.endswith("coldstep.ready() was not called in this process; it was called in trace 2 and trace 3")
