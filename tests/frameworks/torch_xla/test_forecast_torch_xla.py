"""A forecast of a torch_xla step: one graph per set of types, and the second step of an optimizer without state."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import program
import pytest

import coldstep

pytestmark = pytest.mark.torch_xla


def training(optimizer: str, **options: Any) -> Callable[[Any], Any]:
    """A step of a new model."""
    import torch
    import torch_xla

    model = torch.nn.Linear(4, 3).to(torch_xla.device())
    stepping = getattr(torch.optim, optimizer)(model.parameters(), lr=0.1, **options)
    torch_xla.sync()

    def step(x: Any) -> Any:
        stepping.zero_grad()
        loss = model(x).pow(2).sum()
        loss.backward()
        stepping.step()
        torch_xla.sync()
        return loss

    return step


@pytest.mark.parametrize(
    ("optimizer", "options", "compiled"),
    [("Adam", {}, [0, 1, 4]), ("SGD", {}, [0, 4]), ("SGD", {"momentum": 0.9}, [0, 1, 4])],
)
def test_a_step_compiles_as_foretold(
    optimizer: str, options: dict[str, Any], compiled: list[int], tmp_path: Path
) -> None:
    import torch
    import torch_xla

    step = training(optimizer, **options)
    batches = [torch.ones(size, 4).to(torch_xla.device()) for size in (5, 5, 5, 5, 3, 5)]
    torch_xla.sync()
    foretold = coldstep.forecast(step, batches)
    assert ([row.call for row in foretold.compiles], foretold.unknown) == (compiled, [])
    causes = {row.call: row.cause for row in foretold.compiles}
    assert causes == {0: "first", 4: "shape"} | ({1: "optimizer_state"} if 1 in compiled else {})
    assert "record the same in every call" in foretold.notes[0]
    with coldstep.trace(tmp_path / "run.pftrace", device="off", live=False):
        for x in batches:
            with coldstep.step():
                coldstep.wait(step(x))
    trace = coldstep.load(tmp_path / "run.pftrace")
    made = [row for row in trace.compiles if row.outcome == "compiled"]
    assert [trace.intervals[row.segments[0].interval].step for row in made] == compiled
    again = {trace.intervals[row.interval].step: row for row in trace.recompiles}
    assert {step: row.cause for step, row in again.items()} == {
        call: cause for call, cause in causes.items() if cause != "first"
    }
    assert (again[4].before, again[4].after) == (foretold.compiles[-1].before, foretold.compiles[-1].after)


def test_a_number_that_differs_is_not_guessed() -> None:
    import torch
    import torch_xla

    x = torch.ones(3).to(torch_xla.device())

    def step(x: Any, scale: float) -> Any:
        return x * scale

    foretold = coldstep.forecast(step, [(x, 0.5), (x, 0.5), (x, 1.0), (x[:2], 0.5)])
    assert [row.call for row in foretold.compiles] == [0, 3]
    assert [row.call for row in foretold.unknown] == [2]


def test_programs_compile_as_foretold(tmp_path: Path) -> None:
    # of a module, so that what it defines is not the program's
    source = "import os\nfrom scenarios import ENVIRONMENT, foretelling\n"
    source += "os.environ |= {'XLA_FLAGS': ENVIRONMENT['XLA_FLAGS']}\nforetelling.main(['torch_xla'])"
    done = program.run(source, tmp_path, env={"PYTHONPATH": str(Path(__file__).parents[2])}, stack="torch_xla")
    *_, said = done.stdout.splitlines()
    assert said.startswith("69 right, 1 unknown, 0 wrong"), done.stdout


def told_and_happened(folder: Path, size: int, optimizer: str, **options: Any) -> tuple[list[Any], list[Any]]:
    """What was told when the first step of two was over, and what the second then compiled; with state_made=True, of an
    optimizer that had taken a step before."""
    import torch
    import torch_xla

    before = options.pop("state_made", False)
    model = torch.nn.Linear(4, 3).to(torch_xla.device())
    stepping = getattr(torch.optim, optimizer)(model.parameters(), lr=0.1, **options)
    x = torch.ones(size, 4).to(torch_xla.device())

    def step() -> Any:
        stepping.zero_grad()
        loss = model(x).pow(2).sum()
        loss.backward()
        stepping.step()
        torch_xla.sync()
        return loss

    if before:
        step()
    torch_xla.sync()
    told: list[coldstep.Coming] = []
    with coldstep.trace(folder / "run.pftrace", device="off", live=False, on_forecast=told.append):
        for _ in range(2):
            with coldstep.step():
                coldstep.wait(step())
    again = coldstep.load(folder / "run.pftrace").recompiles
    first, second = (
        [(row.step, row.cause, row.argument, row.before, row.after) for row in rows] for rows in (told, again)
    )
    return first, second


def test_an_optimizers_state_is_told_of_when_the_first_step_is_over(tmp_path: Path) -> None:
    told, happened = told_and_happened(tmp_path, 7, "AdamW")
    assert told == [(1, "optimizer_state", "stepping.state", "{}", "{'exp_avg', 'exp_avg_sq', 'step'}")] == happened
    told, happened = told_and_happened(tmp_path, 8, "SGD", momentum=0.9)
    assert told == [(1, "optimizer_state", "stepping.state", "{}", "{'momentum_buffer'}")] == happened


def test_an_optimizer_without_state_or_that_has_it_is_not_told_of(tmp_path: Path) -> None:
    assert told_and_happened(tmp_path, 9, "SGD") == ([], [])
    told, _ = told_and_happened(tmp_path, 10, "SGD", momentum=0.9, state_made=True)
    assert told == []


def test_an_optimizer_that_nobody_sees_before_the_step_is_not_judged(tmp_path: Path) -> None:
    import torch
    import torch_xla

    step = training("SGD", momentum=0.9)
    x = torch.ones(11, 4).to(torch_xla.device())
    step(x)
    told: list[coldstep.Coming] = []
    with coldstep.trace(tmp_path / "run.pftrace", device="off", live=False, on_forecast=told.append):
        for _ in range(2):
            with coldstep.step():
                coldstep.wait(step(x))
    assert told == []


UNMARKED = """
import torch, torch_xla
device = torch_xla.device()
model = torch.nn.Linear(4, 4).to(device)
optimizer = torch.optim.KIND(model.parameters(), lr=0.1)
x = torch.ones(2, 4, device=device)
torch_xla.sync()
for _ in range(3):
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
    torch_xla.sync()
"""


@pytest.mark.parametrize(("kind", "said"), [("SGD", 0), ("Adam", 1)])
def test_an_optimizers_state_is_told_of_without_marks(kind: str, said: int, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(UNMARKED.replace("KIND", kind))
    done = program.warm("torch_xla", ["coldstep", "run", "--device", "off", "-o", "t.pftrace", "train.py"], tmp_path)
    lines = [line for line in done.stderr.splitlines() if "will be compiled again in its next call" in line]
    assert len(lines) == said == len(coldstep.load(tmp_path / "t.pftrace").recompiles), done.stderr
    assert all(
        "(optimizer_state): optimizer.state was {}, is now {'exp_avg', 'exp_avg_sq', 'step'}" in x for x in lines
    )
