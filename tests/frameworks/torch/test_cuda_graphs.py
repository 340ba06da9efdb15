"""What a trace tells of CUDA graphs, which PyTorch warms up for, records and replays; CUDA itself is stood in for."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import program
import pytest

import coldstep
from coldstep.analysis.answers import answers
from coldstep.analysis.budgets import judge, parse
from coldstep.converting import rewrite
from coldstep.model import Settling, Trace
from coldstep_viewers.report.html import page
from coldstep_viewers.report.terminal import render

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

@torch.compile(mode="reduce-overhead")
def trained_later(x):
    return x.square().sum()

@torch.compile(mode="reduce-overhead")
def first(x):
    return x + 1

@torch.compile(mode="reduce-overhead")
def second(x):
    return x * 2

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
    for n in range(6):
        with coldstep.step("late"):
            loss = trained_later(torch.ones(4, requires_grad=True))
            if n >= 3:
                loss.backward()
    cuda_stood_in.OUTPUTS_LIVE = True
    with torch.no_grad():
        for n in range(7):
            torch.compiler.cudagraph_mark_step_begin()
            with coldstep.step("order"):
                second(first(torch.ones(4)) if n < 3 else torch.ones(4))

assert dict(vars(CUDAGraphTreeManager)) == before
print(json.dumps(losses))
"""


DECODE = """
import cuda_stood_in
import coldstep
import torch

torch.set_num_threads(1)
cache, kept = torch.zeros(4, 8), torch.zeros(4, 8)
torch._dynamo.mark_static_address(kept)

@torch.compile(mode="reduce-overhead")
def decode(x, cache):
    cache[0] += x
    return cache.sum()

@torch.compile(mode="reduce-overhead")
def decode_kept(x, cache):
    cache[0] += x
    return cache.sum()

@torch.compile(mode="reduce-overhead")
def plain(x):
    return x.square().sum()

with torch.no_grad(), coldstep.trace("skips.pftrace"):
    for n in range(4):
        with coldstep.step():
            decode(torch.ones(8), cache)
    for n in range(4):
        with coldstep.step("good"):
            plain(torch.ones(8))
with torch.no_grad(), coldstep.trace("kept.pftrace"):
    for n in range(4):
        with coldstep.step():
            decode_kept(torch.ones(8), kept)
"""


def test_a_graph_that_runs_without_its_cuda_graph_is_an_answer_and_the_advice_cures_it(tmp_path: Path) -> None:
    env = {
        "PYTHONPATH": str(Path(__file__).parents[2] / "helpers"),
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"),
    }
    program.run(DECODE, tmp_path, env=env, stack="torch")
    trace = coldstep.load(tmp_path / "skips.pftrace")
    [row] = [row for row in trace.findings if row.kind == "uncompiled"]
    assert row.text == "PyTorch replays no CUDA graph in decode: mutated inputs"
    assert row.location is not None
    assert trace.code[row.location.file, row.location.line].strip() == "cache[0] += x"
    assert "torch._dynamo.mark_static_address(tensor)" in row.advice
    assert row.id in {answer.finding for answer in answers(trace)}
    again = coldstep.load(tmp_path / "kept.pftrace")
    assert [row.text for row in again.findings if row.kind == "uncompiled"] == []
    assert any(row.kind == "recording" for row in again.cuda_graphs)


def train(folder: Path, trace: str) -> list[str]:
    env = {
        "TRACE": trace,
        "PYTHONPATH": str(Path(__file__).parents[2] / "helpers"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache"),
    }
    losses: list[str] = json.loads(program.run(TRAIN, folder, env=env, stack="torch").stdout)
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


def of(trace: Trace, name: str) -> Settling:
    [row] = [row for row in trace.settling if row.name == name]
    return row


def told(trace: Trace, name: str) -> list[tuple[int | None, str]]:
    return [(cause.step, cause.text) for cause in of(trace, name).causes]


def test_a_step_that_records_has_not_settled(trace: Trace) -> None:
    steps = [row for row in trace.intervals if (row.kind, row.name) == ("step", "step")]
    settling = of(trace, "step")
    assert (settling.verdict, settling.settled_at_step) == ("settled", 2)
    labels = ["first", "settling", *["steady"] * 4, "compiled", "steady", "recompiled", "compiled", "steady"]
    assert [row.label for row in steps] == [*labels, "compiled", "compiled", "steady"]
    assert all("inductor.cudagraphs" in steps[at].phases for at in (1, 6, 9, 12))
    assert not any("inductor.cudagraphs" in step.phases for step in steps if step.label == "steady")
    assert not any(row.compiles for row in steps if row.step not in (0, 8))


def test_what_was_recorded_when_and_why(trace: Trace) -> None:
    first, second = (row.id for row in trace.compiles if row.function == "loss_of")
    causes = of(trace, "step").causes
    assert [(cause.step, cause.compile, cause.text) for cause in causes] == [
        (1, first, "loss_of (forward, backward) was recorded as a CUDA graph in step 1"),
        (
            6,
            first,
            "loss_of (forward) was recorded again as a CUDA graph in step 6: static input data pointer changed",
        ),
        (9, second, "loss_of (forward, backward) was recorded as a CUDA graph in 2 steps, 9 to 12, for 6 and 9"),
        (11, second, "loss_of (forward, backward) ran to warm up for a CUDA graph in step 11, for 9"),
    ]
    once, moved, number, _ = (cause.advice for cause in causes)
    assert "replays it" in once
    assert "copy_" in moved
    assert "cudagraph_skip_dynamic_graphs" in number
    warmed = [row for row in trace.cuda_graphs if row.kind == "warm-up"][:6]
    parts = ["forward", "backward"] * 3
    assert [(row.part, trace.intervals[row.interval].step) for row in warmed] == list(
        zip(parts, [0, 0, 8, 8, 11, 11], strict=True)
    )


def test_the_first_time_of_a_later_backward_is_not_called_another_one(trace: Trace) -> None:
    assert told(trace, "late") == [
        (1, "trained_later (forward) was recorded as a CUDA graph in step 1"),
        (3, "the backward of trained_later was compiled in step 3, by the first .backward() through it"),
        (4, "trained_later (backward) was recorded as a CUDA graph in step 4"),
    ]


def test_another_order_of_calls_is_said_to_be_recorded_by_itself(trace: Trace) -> None:
    *_, cause = of(trace, "order").causes
    assert cause.text == (
        "second (forward) was recorded again as a CUDA graph in step 3: it was recorded after another graph"
    )
    assert "order" in cause.advice


def test_device_traces_go_on_until_nothing_is_recorded_any_more(trace: Trace, folder: Path) -> None:
    devices = [row for row in trace.device_traces.values() if row.slices]
    assert devices
    observed = [row.step for row in trace.intervals if row.name == "step" and "execute" in row.phases]
    assert observed[:4] == [0, 1, 2, 3]  # the recording step restarts the count: then two that replay
    assert 5 not in observed


def test_a_budget_names_what_was_recorded_too_late(trace: Trace) -> None:
    late = judge([trace], parse({"settle_by": {"step": 1}}))
    assert late.word == "over"
    [text] = [finding.text for check in late.checks for finding in check.findings]
    assert text == "loss_of (forward, backward) was recorded as a CUDA graph in step 1"
    assert judge([trace], parse({"settle_by": {"step": 2}})).word == "within"


def test_a_recompile_is_not_answered_by_what_recordings_cost(trace: Trace) -> None:
    recompiled = next(row for row in trace.findings if row.kind == "recompile" and row.text.startswith("loss_of"))
    recorded = next(row for row in trace.findings if row.kind == "repeat_offender" and "CUDA graph" in row.text)
    [second] = [row.compile for row in trace.recompiles if row.id in recompiled.refs]
    at = next(row.interval for row in trace.cuda_graphs if row.compile == second)
    again = replace(recorded, id="of the recompiled one", interval=at, refs=[second])

    rows = answers(replace(trace, findings=[*trace.findings, again]))
    [answer] = [row for row in rows if recompiled.id in (row.finding, *row.also)]
    assert answer.finding == recompiled.id
    assert again.id not in answer.also


def test_the_report_and_the_timeline_say_so(trace: Trace, folder: Path, engine: ModuleType) -> None:
    text = render(trace, every=True)
    assert "CUDA graph set-up and recording" in text
    assert "compiled or recorded after step 0:" in text
    [again] = [row for row in trace.findings if row.kind == "repeat_offender" and row.step == 6]
    assert "static input data pointer changed" in again.text
    assert again.advice in page(trace)
    slices = (
        "select count(*) n from slice join track on track_id = track.id"
        " where track.name glob 'Execution*' and slice.name = 'CUDA graph recording'"
    )
    steps = "select slice.name from slice join track on track_id = track.id where track.name = 'Steps' order by ts"
    counted, named = engine.query(folder / "run.pftrace", slices, steps)
    assert counted == [{"n": sum(row.kind == "recording" for row in trace.cuda_graphs)}]
    engine.assert_clean(folder / "run.pftrace")
    assert [row["name"] for row in named][:3] == ["step 0 first", "step 1 compiled", "step 2 clean"]


def test_it_is_told_of_a_merged_and_of_a_published_trace_too(trace: Trace, folder: Path, tmp_path: Path) -> None:
    with coldstep.trace(tmp_path / "other.pftrace"), coldstep.step("other"):
        pass
    rewrite.merge([str(tmp_path / "other.pftrace"), str(folder / "run.pftrace")], str(tmp_path / "both.pftrace"))
    rewrite.strip(str(folder / "run.pftrace"), str(tmp_path / "public.pftrace"))

    for file in ("both.pftrace", "public.pftrace"):
        assert told(coldstep.load(tmp_path / file), "step") == told(trace, "step")
