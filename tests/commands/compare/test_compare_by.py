"""`coldstep compare --by LABEL`: a curve per stack, where it turns, and why."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import browser as tools
import pytest
from axe_playwright_python.sync_playwright import Axe
from click.testing import CliRunner, Result
from playwright.sync_api import Browser, expect

import coldstep
from coldstep.analysis.across.sweeps import turn
from coldstep_viewers.commands import cli

VALUES = (1, 2, 4, 8, 16, 32, 64)


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(cli.main, ["compare", *map(str, words)], catch_exceptions=False)


def course(*figures: float) -> int | None:
    """The value at which these figures turn."""
    at = turn(list(zip(VALUES, figures, strict=False)))
    return VALUES[at] if at is not None else None


def test_a_curve_turns_where_it_leaves_its_course() -> None:
    assert course(1, 1, 1, 1, 2, 4, 8) == 16
    assert course(1, 1.1, 0.9, 5, 5, 5, 5) == 8  # a cliff
    assert course(1, 2, 4, 8, 16, 64, 256) == 32  # from growing with the value to growing with its square
    assert course(1, 1, 1, 1, 1, 1, 3) == 64
    assert course(1, 1, 3) == 4


def test_what_grows_evenly_or_within_chance_does_not_turn() -> None:
    assert course(1, 2, 4, 8, 16, 32, 64) is None
    assert course(1, 4, 16, 64, 256, 1024, 4096) is None
    assert course(1, 1.2, 0.9, 1.1, 1, 1.2, 1.1) is None
    assert course(64, 32, 16, 8, 4, 2, 1) is None
    assert course(1, 1, 1, 4, 1, 1, 1) is None  # one that was kept waiting
    assert course(1, 9) is None
    assert course() is None


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Steps over n shapes in JAX and in PyTorch, each shape compiled for itself; the environment gives the labels."""
    jax = pytest.importorskip("jax")
    torch = pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("shapes")
    paths = {}
    for n in (1, 4, 2):
        jitted = jax.jit(lambda x: (x * 2).sum())
        compiled = torch.compile(lambda x: (x * 2).sum(), backend="aot_eager", dynamic=False)
        of_stack = {"jax": (jitted, jax.numpy.ones), "dynamo": (compiled, torch.ones)}
        for stack, (call, ones) in of_stack.items():
            path = paths[f"{stack} {n}"] = folder / f"{stack}-{n}.pftrace"
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("JOB_COMPLETION_INDEX", str(n))
                patch.setenv("CI_JOB_NAME", "a")
                with coldstep.trace(path):
                    for _ in range(5):
                        with coldstep.step("shapes"):
                            coldstep.wait([call(ones(size + 4)) for size in range(n)])
            torch.compiler.reset()
    return paths


@pytest.mark.jax
@pytest.mark.torch
def test_each_stack_has_a_point_per_value_with_its_cause(traces: dict[str, Path]) -> None:
    data = json.loads(run("--by", "task", *traces.values(), "--format", "json").stdout)
    assert (data["schema"], data["name"]) == ("coldstep-compare/1", "shapes")
    by_stack = {each["points"][0]["stack"]: each for each in data["sweeps"]}
    assert set(by_stack) == {"jax", "dynamo"}
    for stack, each in by_stack.items():
        assert set(each) == {"label", "points", "turns_at"}
        assert (each["label"], each["turns_at"]) == ("task", None) or each["turns_at"] == "4"
        assert [point["value"] for point in each["points"]] == ["1", "2", "4"]
        assert [point["compiles"] for point in each["points"]] == [1, 2, 4]
        first, *others = [point["cause"] for point in each["points"]]
        assert others == ["shape", "shape"]
        assert coldstep.load(traces[f"{stack} 1"]).vocabulary.has_phase(first)
        for point in each["points"]:
            fields = {"value", "stack", "first_ns", "steady_ns", "peak_bytes", "compiles", "cause"}
            assert set(point) == fields
            [cost] = coldstep.load(traces[f"{stack} {point['value']}"]).cost
            assert (point["first_ns"], point["steady_ns"]) == (cost.first_step.wall_ns, cost.steady_step_ns)
            assert point["peak_bytes"] > 0


@pytest.mark.jax
@pytest.mark.torch
def test_the_text_has_a_table_per_stack_and_says_whether_it_turns(traces: dict[str, Path]) -> None:
    lines = run("--by", "task", *traces.values()).stdout.splitlines()
    assert lines[0] == "shapes: 6 traces by task"
    assert "JAX" in lines
    assert "torch.compile" in lines
    assert sum(line.startswith("Turns ") for line in lines) == 2
    assert any("shape: " in line for line in lines)
    only = run("--by", "task", traces["jax 1"], traces["jax 2"]).stdout
    assert "Turns nowhere: a curve takes three values." in only
    assert "the values are no numbers" in run("--by", "workflow", *traces.values()).stdout


@pytest.mark.jax
@pytest.mark.torch
def test_the_page_has_a_bar_per_value(browser: Browser, traces: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "sweep.html"
    assert run("--by", "task", *traces.values(), "-o", path).stdout.strip() == str(path)
    with tools.opened(browser, path, width=1200) as seen:
        expect(seen.page.locator("table.stacks tbody tr")).to_have_count(6)
        expect(seen.page.get_by_label("JAX", exact=True)).to_contain_text("shape: ")
        assert seen.page.locator("table.phases .lane b").count() >= 6
        found = Axe().run(seen.page)
        assert found.violations_count == 0, found.generate_report()
        seen.page.set_viewport_size({"width": 400, "height": 900})
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= 400
        seen.assert_quiet()


def recorded(folder: Path, name: str, *words: str, raises: bool = False) -> Path:
    """A trace of one step, as `coldstep run` makes it."""
    script = folder / "train.py"
    script.write_text(
        "import coldstep, sys\nwith coldstep.step('s'):\n"
        "    if sys.argv[1:]:\n        raise MemoryError('Unable to allocate 24.5 GiB')\n"
    )
    path = folder / f"{name}.pftrace"
    begin = [sys.executable, "-m", "coldstep", "run", "-o", str(path), "--collectors", "imports", *words]
    done = subprocess.run([*begin, str(script), *(["raise"] if raises else [])], capture_output=True, cwd=folder)
    assert done.returncode == int(raises)
    return path


def test_a_trace_without_the_label_is_one_line(tmp_path: Path) -> None:
    path = recorded(tmp_path, "a", "--label", "team=a")
    done = run("--by", "n", path)
    assert (done.exit_code, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert "a.pftrace has no label n; the labels there are: team; coldstep run --label n=VALUE sets it" in line
    assert run("--by", "n", "--ir", path, path).exit_code == 2


def test_a_run_that_came_to_no_step_is_a_point_with_its_end(tmp_path: Path) -> None:
    whole = recorded(tmp_path, "whole", "--label", "n=1")
    full = recorded(tmp_path, "full", "--label", "n=2", raises=True)
    data = json.loads(run("--by", "n", whole, full, "--format", "json").stdout)
    [last] = [point for each in data["sweeps"] for point in each["points"] if point["value"] == "2"]
    assert (last["first_ns"], last["cause"]) == (None, None)
    assert "24.5 GiB" in " ".join(run("--by", "n", whole, full).stdout.split())
