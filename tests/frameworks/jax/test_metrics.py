"""`run.metrics()`: what compiled so far, while the program trains, as the finished trace then has it."""

from __future__ import annotations

from pathlib import Path

import pytest

import coldstep


@pytest.mark.jax
def test_the_counters_rise_as_the_program_compiles_and_end_as_the_summary_has_them(tmp_path: Path) -> None:
    import jax
    import numpy as np

    @jax.jit
    def inner(x):
        return x * 2

    @jax.jit
    def step(x):
        return inner(x).sum()

    seen = []
    with coldstep.trace(tmp_path / "run.pftrace", device="off") as run:
        assert set(run.metrics().values()) == {0}
        for rows in (3, 3, 4, 5):
            with coldstep.step():
                coldstep.wait(step(np.ones(rows, np.float32)))
            seen.append(run.metrics())
    assert [row["recompiles"] for row in seen] == [0, 0, 1, 2]
    assert seen[0]["compiles"] == seen[1]["compiles"] == 1
    assert 0 < seen[0]["compile_s"] < seen[2]["compile_s"] < seen[3]["compile_s"]
    figures = coldstep.summary(run.path)
    after = run.metrics()
    assert after == seen[-1]
    assert {name: figures[name] for name in ("compiles", "recompiles", "cache_hits")} == {
        name: after[name] for name in ("compiles", "recompiles", "cache_hits")
    }
    for name in ("compile_s", "recompile_s"):
        assert after[name] == pytest.approx(figures[name], rel=0.01)
