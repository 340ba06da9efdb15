"""docs/getting-started.md: its program recompiles as it says, and each of its mends takes away what it says."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from scenarios import warm

import coldstep

PAGE = (Path(__file__).parents[3] / "docs/getting-started.md").read_text()
PROGRAM, FIRST, SECOND = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.jax
def test_each_mend_of_the_tutorial_takes_away_a_recompile(tmp_path: Path) -> None:
    causes = []
    for number, (old, new) in enumerate([("", ""), ("total = 0.0\n", FIRST), (_loop(PROGRAM), SECOND)]):
        program = (tmp_path / "train.py").read_text() if number else PROGRAM
        (tmp_path / "train.py").write_text(program.replace(old, new))
        code, output = warm.server("jax", sys.executable).run(["coldstep", "run", "train.py"], tmp_path)
        assert code == 0, output
        trace = coldstep.load(tmp_path / "train.pftrace")
        causes.append([row.cause for row in trace.recompiles])
        assert f"settled at step {trace.settling[0].settled_at_step}" in PAGE
    assert causes == [["weak_type", "shape"], ["shape"], []]


def _loop(program: str) -> str:
    return next(line + "\n" for line in program.splitlines() if line.startswith("for start"))
