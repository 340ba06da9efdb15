"""What a trace tells on a GPU: kernels and their launches, memory, Triton, CUDA graphs. Skipped where there is none."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import program
import pytest

import coldstep
from coldstep.model import Trace
from coldstep_collectors._private.torch.kineto import Kineto

torch = pytest.importorskip("torch")
seen = torch.cuda.is_available() and torch.version.cuda is not None and Kineto().there and Kineto().can_see_gpus
pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not seen, reason="needs a GPU of NVIDIA's, and PyTorch 2.13 with CUDA 12.6 or newer"),
]

TRAIN = """
import os
import coldstep
import torch

model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.GELU(), torch.nn.Linear(256, 256)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
compiled = torch.compile(model, mode=os.environ["MODE"])

with coldstep.trace("run.pftrace"):
    for n in range(8):
        with coldstep.step():
            loss = compiled(torch.ones(64, 256, device="cuda")).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            coldstep.wait(loss)
"""


def train(folder: Path, mode: str) -> Trace:
    program.run(TRAIN, folder, env={"MODE": mode, "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")})
    return coldstep.load(folder / "run.pftrace")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gpu")
    train(folder, "default")
    return folder / "run.pftrace"


@pytest.fixture(scope="module")
def trace(path: Path) -> Trace:
    return coldstep.load(path)


def test_kernels_stand_on_their_stream_each_below_the_call_that_launched_it(path: Path, engine: ModuleType) -> None:
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


def test_the_device_time_of_recorded_steps_is_execution(trace: Trace) -> None:
    steps = [row for row in trace.intervals if row.kind == "step"]
    assert all("execute" in row.phases for row in steps)
    assert all(row.measures == "complete" for row in steps)
    assert all(row.inside.get("device.kernel", 0) > 0 for row in steps[:3])


def test_triton_is_a_phase_of_the_first_step(trace: Trace) -> None:
    [cost] = trace.cost
    assert "inductor.triton" in {share.phase for share in cost.first_step.phases}


def test_device_memory_is_told_per_step_and_of_the_run(trace: Trace) -> None:
    assert trace.memory.device_peak_bytes
    assert all(row.device_bytes for row in trace.intervals if row.kind == "step")


def test_cuda_graphs_are_warmed_up_for_recorded_and_replayed(tmp_path: Path) -> None:
    trace = train(tmp_path, "reduce-overhead")
    [settling] = trace.settling
    assert (settling.verdict, settling.settled_at_step) == ("settled", 2)
    [cause] = settling.causes
    assert cause.step == 1
    assert "(forward, backward) was recorded as a CUDA graph in step 1" in cause.text
    kinds = [(row.kind, trace.intervals[row.interval].step) for row in trace.cuda_graphs]
    assert sorted(set(kinds)) == [("recording", 1), ("warm-up", 0)]
