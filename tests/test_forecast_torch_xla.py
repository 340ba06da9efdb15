"""A forecast of a torch_xla step: one graph per set of types, and the second step of an optimizer without state."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

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
