"""What a trace shows of a GPU: kernels and their launches, memory, Triton, CUDA graphs. Without one, the runner of
`make gpu` alone is tried."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from gpu.__main__ import Row, table, tried
from gpu.programs import PROGRAMS, Program, Ran, as_measured, steady

import coldstep

torch = pytest.importorskip("torch")
from coldstep_collectors.torch._private.kineto import Kineto  # noqa: E402

seen = torch.cuda.is_available() and torch.version.cuda is not None and Kineto().there and Kineto().can_see_gpus
pytestmark = pytest.mark.torch
on_a_gpu = pytest.mark.skipif(not seen, reason="needs a GPU of NVIDIA's, and PyTorch 2.13 with CUDA 12.6 or newer")
BY_NAME = {each.name: each for each in PROGRAMS}


@on_a_gpu
@pytest.mark.parametrize("program", PROGRAMS, ids=BY_NAME)
def test_a_program_shows_what_it_must(program: Program, tmp_path: Path) -> None:
    pytest.importorskip(program.framework)
    assert tried(program, tmp_path, "cuda", 300).failures == []


@on_a_gpu
def test_kernels_stand_on_their_stream_each_below_the_call_that_launched_it(tmp_path: Path, engine: ModuleType) -> None:
    BY_NAME["Inductor with Triton"].run(tmp_path, "cuda", 300)
    path = tmp_path / "run.pftrace"
    kernels, arrows = engine.query(
        path,
        "select slice.name from slice join track on track_id = track.id"
        " where slice.category = 'kernel' and track.name glob 'CUDA:0 stream *'",
        "select launch.ts <= kernel.ts as after from flow join slice launch on launch.id = slice_out"
        " join slice kernel on kernel.id = slice_in"
        " where launch.category = 'runtime' and kernel.category = 'kernel'",
    )
    engine.assert_clean(path)
    assert any(row["name"].startswith("triton_") for row in kernels)
    assert len(arrows) == len(kernels) > 0
    assert all(row["after"] for row in arrows)


@pytest.mark.jax
def test_what_a_cpu_gives_is_not_taken_for_a_gpus(tmp_path: Path) -> None:
    row = tried(BY_NAME["XLA"], tmp_path, "cpu", 300)
    assert "-" not in row.cells[:4]
    page = table([row, Row(["CUDA graphs"], verdict="not run: torch sees no GPU")], {"jax": "0.10.2 cpu"})
    [_, _, head, _, *rows] = page.splitlines()
    assert {each.count(" | ") for each in (head, *rows)} == {6}
    ran = Ran(coldstep.load(tmp_path / "run.pftrace"), "100 200")
    complaints = [list(expect(ran)) for each in PROGRAMS for expect in each.expect
                  if expect not in (steady, as_measured)]  # fmt: skip
    assert complaints.count(["no phase inductor.triton in the first step"]) == 2
    assert ["no memory of the device"] in complaints
    assert complaints.count(["would_fit says 100 bytes, and 200 were held"]) == 2
    assert complaints.count(["the framework prints no autotuning"]) == 1
    took = "comm.init takes 3.00 s as measured, 0.00 s in the ledger"
    assert list(as_measured(Ran(ran.trace, '{"comm.init": 3}'))) == [took, "of builds it shows []"]
    assert ["of CUDA graphs it shows []", "settling does not name the recording"] in complaints


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(Path(__file__).parents[1])}
    return subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True)


def test_a_machine_without_a_gpu_is_one_line(tmp_path: Path) -> None:
    done = run("-m", "gpu", folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "make gpu: neither PyTorch nor JAX sees a GPU of NVIDIA's here, so nothing was run\n"


def test_a_missing_package_is_named_with_its_wheel(tmp_path: Path) -> None:
    done = run("-S", "-m", "gpu", folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(
        "lacks click jinja2 psutil rich: carry their wheels here (pip download click jinja2 psutil rich)\n"
    )
