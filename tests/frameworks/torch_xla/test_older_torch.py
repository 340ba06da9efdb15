"""What PyTorch 2.9, which torch_xla brings along, tells in other words than today's: the scenarios hold there, too."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import scenarios
from scenarios import elsewhere


@pytest.mark.torch_xla
@pytest.mark.parametrize("name", ["break_loop", "optimizers"])
def test_a_scenario_holds_on_older_pytorch(tmp_path: Path, name: str) -> None:
    result = elsewhere.run(scenarios.HERE / "torch" / f"{name}.py", sys.executable, tmp_path / name)
    assert (result.verdict, result.why) == (elsewhere.HELD, "")
