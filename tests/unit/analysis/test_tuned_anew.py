"""A kernel that Triton tunes for each new size is an answer; what is tuned once, or kept from before, is none."""

from __future__ import annotations

from pathlib import Path

import generated_trace
import pytest

import coldstep
from coldstep.analysis.tuned_anew import tuned_anew
from coldstep.model import Autotuning, Location, Trace

AT = Location("train.py", 7, "main")


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    generated_trace.write(tmp_path / "t.pftrace", steps=5, compiles=1)
    return coldstep.load(tmp_path / "t.pftrace")


def tuned(operation: str, seconds: int = 1, *, cached: bool = False) -> Autotuning:
    return Autotuning(0, None, operation, 8, 0, seconds * 10**9, "BLOCK: 64", None, None, cached, AT, 0)


def test_each_further_value_of_a_key_is_paid_for(trace: Trace) -> None:
    trace.autotuning = [tuned("scale(n=10, d=4)", 3), tuned("scale(n=20, d=4)", 2), tuned("scale(n=30, d=4)", 1)]
    [row] = tuned_anew(trace)
    assert row.text == "scale was tuned 3 times, for (n=10, d=4), (n=20, d=4) and (n=30, d=4)"
    assert (row.cost_ns, row.location) == (3 * 10**9, AT)
    assert row.advice.startswith("Triton tunes scale again for each new value of its keys: call it with few")


@pytest.mark.parametrize(
    "rows",
    [
        [tuned("scale(n=10)"), tuned("scale(n=20)")],
        [tuned("scale(n=10)")] * 4,  # for other dtypes, say
        [tuned(f"scale(n={n})", cached=True) for n in range(5)],
        [tuned(f"scale{n}(n=1)") for n in range(5)],
        [tuned(f"mm({n}x64, 64x64)") for n in range(5)],  # Inductor's, for graphs of their own
        [tuned("scale()")] * 4,
        [tuned("_fwd(n=1, d=2)"), tuned("_fwd(rows=8)"), tuned("_fwd(m=1, k=4)")],
    ],
    ids=["two", "one value", "cached", "several kernels", "inductor", "no keys", "kernels of one name"],
)
def test_it_is_silent_where_no_key_takes_many_values(trace: Trace, rows: list[Autotuning]) -> None:
    trace.autotuning = rows
    assert [*tuned_anew(trace)] == []
