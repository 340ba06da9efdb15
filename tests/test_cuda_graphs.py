"""What a trace tells of CUDA graphs, which PyTorch warms up for, records and replays; CUDA itself is stood in for."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType, SimpleNamespace

import program
import pytest

import coldstep
from coldstep import rewrite
from coldstep.analysis.budgets import judge, parse
from coldstep.model import Trace
from coldstep_viewers.terminal import render

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

# 0-5: the usual; 6: a parameter is replaced; 8: another size, compiled for any; 11: one more size, compiled no more
TRAIN = """
import contextlib, json, os
import cuda_stood_in
import coldstep
import torch
from torch._inductor.cudagraph_trees import CUDAGraphTreeManager

trace = os.environ["TRACE"]
active = coldstep.trace(trace) if trace else contextlib.nullcontext()
before = dict(vars(CUDAGraphTreeManager))

torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Linear(8, 8)
losses = []

@torch.compile(mode="reduce-overhead")
def loss_of(x):
    return model(x).square().sum()

with active:
    for n in range(14):
        if n == 6:
            model.weight = torch.nn.Parameter(model.weight.detach().clone())
        with coldstep.step():
            loss = loss_of(torch.ones(4 if n < 8 else 6 if n < 11 else 9, 8))
            loss.backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter -= 0.01 * parameter.grad
            model.zero_grad()
        losses.append(loss.item().hex())

assert dict(vars(CUDAGraphTreeManager)) == before
print(json.dumps(losses))
"""


def train(folder: Path, trace: str) -> list[str]:
    env = {"TRACE": trace, "PYTHONPATH": str(Path(__file__).parent), "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")}
    losses: list[str] = json.loads(program.run(TRAIN, folder, env=env).stdout)
    return losses


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cuda_graphs")


@pytest.fixture(scope="module")
def losses(folder: Path) -> list[str]:
    return train(folder, "run.pftrace")


@pytest.fixture(scope="module")
def trace(folder: Path, losses: list[str]) -> Trace:
    return coldstep.load(folder / "run.pftrace")


def test_numbers_are_those_of_a_run_without_a_trace(folder: Path, losses: list[str]) -> None:
    assert train(folder, "") == losses


def test_a_step_that_records_has_not_settled(trace: Trace) -> None:
    steps = [row for row in trace.intervals if row.kind == "step"]
    (settling,) = trace.settling
    assert (settling.verdict, settling.settled_at_step) == ("settled", 2)
    labels = ["first", "settling", *["steady"] * 4, "compiled", "steady", "recompiled", "compiled", "steady"]
    assert [row.label for row in steps] == [*labels, "compiled", "compiled", "steady"]
    recorded = [row.step for row in steps if "inductor.cudagraphs" in row.phases]
    assert recorded == [1, 6, 9, 12]
    assert not any(row.compiles for row in steps if row.step not in (0, 8))


def test_what_was_recorded_when_and_why(trace: Trace) -> None:
    (settling,) = trace.settling
    first, second = (row.id for row in trace.compiles)
    assert [(cause.step, cause.compile, cause.text) for cause in settling.causes] == [
        (1, first, "loss_of (forward, backward) was recorded as a CUDA graph in step 1"),
        (
            6,
            first,
            "loss_of (forward) was recorded again as a CUDA graph in step 6: static input data pointer changed",
        ),
        (9, second, "loss_of (forward, backward) was recorded as a CUDA graph in step 9, for size 6"),
        (11, second, "loss_of (forward, backward) ran to warm up for a CUDA graph in step 11, for size 9"),
        (12, second, "loss_of (forward, backward) was recorded as a CUDA graph in step 12, for size 9"),
    ]
    once, moved, _, _, size = (cause.advice for cause in settling.causes)
    assert "replays it" in once
    assert "copy_" in moved
    assert "cudagraph_skip_dynamic_graphs" in size
    warmed = [row for row in trace.cuda_graphs if row.kind == "warm-up"]
    parts = ["forward", "backward"] * 3
    assert [(row.part, trace.intervals[row.interval].step) for row in warmed] == list(
        zip(parts, [0, 0, 8, 8, 11, 11], strict=True)
    )


def test_device_traces_go_on_until_nothing_is_recorded_any_more(trace: Trace, folder: Path) -> None:
    devices = [row for row in trace.device_traces.values() if row.slices]
    assert devices
    observed = [row.step for row in trace.intervals if row.kind == "step" and "execute" in row.phases]
    assert observed[:4] == [0, 1, 2, 3]  # the recording step restarts the count: then two that replay
    assert 5 not in observed


def test_a_budget_names_what_was_recorded_too_late(trace: Trace) -> None:
    late = judge([trace], parse({"settle_by": 1}))
    assert late.word == "over"
    [text] = [finding.text for check in late.checks for finding in check.findings]
    assert text == "loss_of (forward, backward) was recorded as a CUDA graph in step 1"
    assert judge([trace], parse({"settle_by": 2})).word == "within"


def test_the_report_and_the_timeline_say_so(trace: Trace, folder: Path, engine: ModuleType) -> None:
    text = render(trace)
    assert "CUDA graph recording" in text
    assert "compiled or recorded after step 0:" in text
    slices = (
        "select count(*) n from slice join track on track_id = track.id"
        " where track.name glob 'Execution*' and slice.name = 'CUDA graph recording'"
    )
    steps = "select slice.name from slice join track on track_id = track.id where track.name = 'Steps' order by ts"
    counted, named = engine.query(folder / "run.pftrace", slices, steps)
    assert counted == [{"n": 7}]
    engine.assert_clean(folder / "run.pftrace")
    assert [row["name"] for row in named][:3] == ["step 0 first", "step 1 compiled", "step 2 clean"]


def test_it_is_told_of_a_merged_and_of_a_published_trace_too(trace: Trace, folder: Path, tmp_path: Path) -> None:
    with coldstep.trace(tmp_path / "other.pftrace"), coldstep.step("other"):
        pass
    rewrite.merge([str(tmp_path / "other.pftrace"), str(folder / "run.pftrace")], str(tmp_path / "both.pftrace"))
    rewrite.strip(str(folder / "run.pftrace"), str(tmp_path / "public.pftrace"))

    def told(file: str) -> list[tuple[int | None, str]]:
        rows = coldstep.load(tmp_path / file).settling
        return [(cause.step, cause.text) for row in rows for cause in row.causes]

    alone = [(cause.step, cause.text) for row in trace.settling for cause in row.causes]
    assert told("both.pftrace") == told("public.pftrace") == alone


def test_a_pytorch_that_does_it_otherwise_is_said_to_be_partly_unseen() -> None:
    from coldstep_collectors._private import cudagraphs

    class CUDAGraphTreeManager:
        def __init__(self) -> None:
            self.id_to_mode: dict[int, str] = {}

        def run_eager(self) -> None: ...

        def record_function(self) -> None: ...

    def never(*_: object) -> None:
        raise AssertionError

    module = SimpleNamespace(CUDAGraphTreeManager=CUDAGraphTreeManager)
    assert cudagraphs.watch(module, never, never) is None  # type: ignore[arg-type]
