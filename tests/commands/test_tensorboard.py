"""What TensorBoard's profile plugin makes of an exported trace: its figures, and its trace viewer in a real browser."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import generated_trace
import in_tensorboard
import pytest
from playwright.sync_api import Browser, expect

import coldstep
from coldstep.model import UNATTRIBUTED

pytest.importorskip("xprof")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("traces") / "my run.pftrace"
    generated_trace.write(path, steps=30, compiles=3)
    return path


@pytest.fixture(scope="module")
def exported(file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(file, tmp_path_factory.mktemp("logs"))


def export(trace: Path, logdir: Path) -> Path:
    command = [sys.executable, "-m", "coldstep", "export", trace, "--to", "tensorboard", logdir]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return Path(done.stdout.strip())


def test_it_lies_where_the_plugin_looks_for_runs(exported: Path) -> None:
    assert exported.parts[-4:] == ("plugins", "profile", "my_run_2026_11_20_12_00_00", "my_run.xplane.pb")


def test_the_plugin_reads_the_reports_steps_phases_and_findings(file: Path, exported: Path) -> None:
    trace = coldstep.load(file)
    shown = in_tensorboard.events(exported)
    lines = ["Steps", "Findings", "Step phases", "JAX", "Execution", "XLA thread", "stream 7"]
    assert list(dict.fromkeys(row.line for row in shown)) == lines
    steps = [row for row in trace.intervals if row.kind == "step"]
    assert [(row.name, row.start_ns, row.wall_ns) for row in shown if row.line == "Steps"] == [
        (f"step {row.step} {row.label}", row.start_ns, row.wall_ns) for row in steps
    ]
    ledger: Counter[str] = Counter()
    for row in trace.intervals:
        ledger.update(row.phases)
        ledger[UNATTRIBUTED] += row.unattributed_ns
    drawn: Counter[str] = Counter()
    for event in shown:
        drawn[event.name] += event.wall_ns if event.line == "Step phases" else 0
    assert +drawn == ledger
    found = [row.args["text"] for row in shown if row.line == "Findings"]
    assert sorted(found) == sorted(row.text for row in trace.findings)


def test_a_compile_says_what_the_file_says_of_it(exported: Path) -> None:
    compiles = [row for row in in_tensorboard.events(exported) if row.line == "JAX" and "compile" in row.args]
    assert [row.args["compile"] for row in compiles] == ["c0", "c1", "c2"]
    assert compiles[0].args["location"] == "/repo/train.py:41 in stage_0"
    assert compiles[0].args["outcome"] == "compiled"
    assert "batch['tokens']" in compiles[0].args["inputs"]


def test_kernels_that_overlap_are_all_there(exported: Path) -> None:
    shown = [row for row in in_tensorboard.events(exported) if row.line == "stream 7"]
    assert sorted((row.name, row.wall_ns) for row in shown) == [(f"gemm_{n}", 2_000_000) for n in range(40, 44)]


def test_exporting_again_replaces_what_the_plugin_had_made_of_it(file: Path, exported: Path) -> None:
    kept = exported.parent / "my_run.SSTABLE"
    kept.write_text("what the plugin keeps")
    assert export(file, exported.parents[3]) == exported
    assert not kept.exists()


def test_the_trace_viewer_shows_the_pipeline_beside_the_devices(browser: Browser, exported: Path) -> None:
    with in_tensorboard.serving(exported.parents[3]) as address:
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        viewer = in_tensorboard.trace_viewer(page, address)
        for line in ("Steps", "Findings", "Step phases", "JAX", "Execution", "XLA thread", "stream 7"):
            expect(viewer.get_by_text(line, exact=True).first).to_be_visible()
        expect(viewer.locator(".process-track-name")).to_contain_text(["Pipeline (process 0)", "Device (process 0)"])
        label = viewer.get_by_text("Steps", exact=True).bounding_box()
        assert label is not None
        page.keyboard.press("1")  # the pointer selects
        page.mouse.click(600, label["y"] + label["height"] / 2)  # the first step fills most of the run
        expect(viewer.locator("body")).to_contain_text("XLA compilation")
        page.close()
