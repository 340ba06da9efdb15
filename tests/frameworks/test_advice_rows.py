"""Programs whose one purpose is to have a row of advice seen: docs/evidence/advice.csv names them."""

from __future__ import annotations

from pathlib import Path

import pytest
from advice_rows import Recorder, catalogue, run_one

import coldstep
from coldstep.analysis.remedies import table

PROGRAMS = sorted(Path(__file__).parents[1].joinpath("shown").glob("*.py"))
MARKS = {"keras": "tensorflow"}


def _marked(path: Path) -> object:
    first = path.stem.partition("_")[0]
    return pytest.param(path, marks=getattr(pytest.mark, MARKS.get(first, first)), id=path.stem)


@pytest.mark.parametrize("program", [_marked(path) for path in PROGRAMS])
def test_a_program_shows_the_rows_that_it_names(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = program.read_text().splitlines()
    rows = {line.removeprefix("# shows: ").partition("  # noqa")[0] for line in lines if line.startswith("# shows")}
    assert rows
    monkeypatch.setattr(table, "_environment", table._environment)  # which the recorder puts itself in the place of
    recorder = Recorder(catalogue())
    run_one(program, tmp_path / "run.pftrace")
    assert rows <= {*recorder.shown(coldstep.load(tmp_path / "run.pftrace"))}
