"""`coldstep.summary`: twenty figures of a trace, flat, with the same keys of whatever trace, as the report has them."""

from __future__ import annotations

import json
from pathlib import Path

import generated_trace
import pytest

import coldstep

TRACES = sorted((Path(__file__).parents[2] / "traces").glob("*.pftrace"))
KEYS = [
    "step", "steps", "first_step_s", "first_step_phase", "time_to_first_step_s", "time_to_settled_s", "steady_step_s",
    "settled_at_step", "compiles", "compile_s", "recompiles", "recompile_s", "top_cause", "graph_breaks", "cache_hits",
    "cache_misses", "wall_s", "to_change", "peak_rss_bytes", "ended",
]  # fmt: skip
"""They stay: dashboards are built on them."""


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_every_trace_has_the_same_keys_and_the_figures_of_its_report(path: Path) -> None:
    figures = coldstep.summary(path)
    assert [*figures] == KEYS
    assert json.loads(json.dumps(figures)) == figures
    trace = coldstep.load(path)
    assert figures == coldstep.summary(trace)
    cost = next(row for row in trace.cost if row.name == figures["step"])
    assert figures["first_step_s"] == cost.first_step.wall_ns / 1e9
    assert figures["recompiles"] in (len(trace.recompiles), None)
    if figures["top_cause"] is not None:
        costs = {row.cause: 0 for row in trace.recompiles}
        for row in trace.recompiles:
            costs[row.cause] += row.cost_ns
        assert costs[str(figures["top_cause"])] == max(costs.values())


def test_of_several_kinds_of_step_it_is_of_the_one_with_the_most() -> None:
    figures = coldstep.summary(next(path for path in TRACES if path.stem == "jax_train"))
    assert (figures["step"], figures["steps"]) == ("step", 8)  # and two of validation


def test_what_could_not_be_seen_is_no_zero() -> None:
    figures = coldstep.summary(next(path for path in TRACES if path.stem == "tf_train"))
    assert figures["compiles"] is figures["recompiles"] is figures["compile_s"] is None


def test_without_steps_their_figures_are_none(tmp_path: Path) -> None:
    with coldstep.trace(tmp_path / "t.pftrace", collectors=["imports"]):
        pass
    figures = coldstep.summary(tmp_path / "t.pftrace")
    assert [*figures] == KEYS
    assert {name for name in KEYS[:8] if figures[name] is not None} == set()


def test_a_file_that_is_no_trace_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "t.pftrace").write_text("no")
    with pytest.raises(ValueError, match="is not a Perfetto trace"):
        coldstep.summary(tmp_path / "t.pftrace")
    generated_trace.write(tmp_path / "u.pftrace", steps=5, compiles=2)
    assert coldstep.summary(tmp_path / "u.pftrace")["steps"] == 5
