"""A plan's work is that of an earlier trace's steps, size by size, where they are the calls; else the size, and why."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import program
import pytest

import coldstep
from coldstep.ahead.plans import Curve, best_buckets
from coldstep.ahead.work import NotMeasured, by_size, work_of
from coldstep.model import Trace
from coldstep_viewers.pages.forecast_text import work

BY_SIZE = "work is taken to grow with the size"
BY_STEPS = "steps as the trace measured them, size by size, its n-th step being the n-th call"
ELSEWHERE = "the trace's compiles of it are not all in steps of one process and name"
ROUND = (2, 3, 4)
LENGTHS = ROUND * 5


def square(size: int) -> int:
    """Work that grows with the square."""
    return 1_000_000 * size**2


def recorded(folder: Path, function: Any, calls: Sequence[Any], **how: Any) -> Trace:
    """A trace of steps, each a call; a machine's chance is taken out of what they took."""
    once, waits, warm = how.get("once", 1), how.get("waits", True), how.get("warm", [])
    with coldstep.trace(folder / "earlier.pftrace", device="off", live=False):
        for call in warm:
            function(*call)
        for call in calls:
            with coldstep.step(how.get("name", lambda _: "step")(call)):
                result = [function(*call) for _ in range(once)]
                if waits:
                    coldstep.wait(result)
    trace = coldstep.load(folder / "earlier.pftrace")
    trace.intervals = [*trace.intervals]
    for row, call in zip((row for row in trace.intervals if row.kind == "step"), calls, strict=True):
        row.wall_ns = how.get("took", square)(call[0].shape[0])
    return trace


@pytest.fixture
def made() -> Callable[[], Any]:
    """A function that nothing has compiled."""
    import jax

    def make() -> Any:
        jax.clear_caches()

        def step(x: Any, y: Any = 0.0) -> Any:
            return (x + 1).sum() + y

        return jax.jit(step)

    return make


def ones(lengths: Sequence[int]) -> list[Any]:
    import numpy as np

    return [(np.ones(length, np.float32),) for length in lengths]


def curve(function: Any, calls: Sequence[Any], trace: Trace) -> Curve:
    [only] = coldstep.forecast(function, calls, trace=trace).curves
    return only


@pytest.mark.jax
def test_padding_costs_what_the_steps_of_the_trace_took(tmp_path: Path, made: Callable[[], Any]) -> None:
    calls = ones(LENGTHS)
    trace = recorded(tmp_path, made(), calls)
    forecast = coldstep.forecast(made(), calls, trace=trace)
    [only] = forecast.curves
    assert work(only) == BY_STEPS
    longest = next(plan for plan in only.plans if plan.kind == "longest")
    assert only.step_ns == {size: square(size) for size in ROUND}
    assert longest.padding_share == pytest.approx(1 - (4 + 9 + 16) / (3 * 16))
    first, *again = (row.wall_ns for row in trace.compiles if row.function == "step")
    assert longest.total_ns == first + len(LENGTHS) * square(4)
    assert only.plans[0].total_ns == pytest.approx(first + sum(again) + 5 * sum(map(square, ROUND)), abs=2)
    [row] = forecast.to_json()["work"]
    assert row == {"argument": "x", "dimension": 0, "work_by": "steps", "why": "", "step_ns": only.step_ns}


@pytest.mark.jax
def test_without_a_trace_it_grows_with_the_size(made: Callable[[], Any]) -> None:
    forecast = coldstep.forecast(made(), ones(LENGTHS))
    assert work(forecast.curves[0]) == BY_SIZE
    assert forecast.to_json()["work"][0]["work_by"] == "size"


@pytest.mark.jax
@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"lengths": LENGTHS[:-1]}, "the trace has 14 steps for 15 calls"),
        ({"lengths": (*ROUND[::-1], *LENGTHS[3:])}, "step 0 of the trace did not have the sizes of call 0"),
        ({"lengths": (2, 2, 3, 4, *LENGTHS[4:])}, "step 2 of the trace did not have the sizes of call 2"),
        ({"lengths": (2,) * 15}, "call 1 will compile, and step 1 of the trace did not"),
        ({"waits": False}, "the trace's steps end when their work is handed over, not when it is done"),
        ({"warm": (4,)}, ELSEWHERE),
        (
            {"name": lambda call: f"{call[0].shape[0]}"},
            ELSEWHERE,
        ),
        ({"lengths": LENGTHS[:3] * 2, "calls": LENGTHS[:3] * 2}, "the trace has too few steady steps of size 2"),
        ({"took": lambda size: 9 - size}, "in the trace, steps of size 3 took less than those"),
        ({"other": True}, "the function is not among what the trace compiled"),
    ],
)
def test_steps_that_are_not_the_calls_are_not_taken_for_them(
    how: dict[str, Any], why: str, tmp_path: Path, made: Callable[[], Any]
) -> None:
    import jax

    how = {**how}
    given = ones(how.pop("lengths", LENGTHS))
    warm, calls = ones(how.pop("warm", ())), ones(how.pop("calls", LENGTHS))
    function = jax.jit(lambda x: x * 2) if how.pop("other", False) else made()
    trace = recorded(tmp_path, function, given, warm=warm, **how)
    only = curve(made(), calls, trace)
    assert work(only).startswith(f"{BY_SIZE}: {why}")
    assert 1 - only.plans[1].padding_share == pytest.approx(3 / 4)


@pytest.mark.jax
def test_two_sizes_that_vary_apart_are_not_told_apart_by_steps(tmp_path: Path, made: Callable[[], Any]) -> None:
    import numpy as np

    def both(x: Any, y: Any) -> tuple[Any, Any]:
        return np.ones(x, np.float32), np.ones((y, 1), np.float32)

    calls = [both(x, y) for _ in range(5) for x, y in ((2, 3), (2, 5), (4, 3))]
    trace = recorded(tmp_path, made(), calls)
    curves = coldstep.forecast(made(), calls, trace=trace).curves
    assert [work(each) for each in curves] == [f"{BY_SIZE}: more than this size varies between its steps"] * 2
    double = [both(x, 2 * x) for x in LENGTHS]
    curves = coldstep.forecast(made(), double, trace=recorded(tmp_path, made(), double)).curves
    assert [work(each) for each in curves] == [f"{BY_SIZE}: more than this size varies between its steps"] * 2
    alike = [both(x, x) for x in LENGTHS]
    assert work(curve(made(), alike, recorded(tmp_path, made(), alike))) == BY_STEPS


@pytest.mark.torch
def test_the_sizes_of_a_graph_that_leaves_them_open_have_steps_of_their_own(tmp_path: Path) -> None:
    import torch

    def step(x: Any) -> Any:
        return x.cos().sum()

    torch.compiler.reset()
    calls = [(torch.ones(length),) for length in LENGTHS]
    trace = recorded(tmp_path, torch.compile(step, backend="eager"), calls)
    torch.compiler.reset()
    only = curve(step, calls, trace)
    assert work(only) == BY_STEPS
    assert 1 / (1 - only.plans[2].padding_share) == pytest.approx(48 / 29)
    assert 1 - only.plans[0].padding_share == 1
    assert work(curve(step, [(torch.ones(8),), *calls[1:]], trace)).startswith(f"{BY_SIZE}: step 0 of the trace")

    torch.compiler.reset()
    later = calls[2:]
    random.Random(1).shuffle(later)  # compiles show no other order of these
    trace = recorded(tmp_path, torch.compile(step, backend="eager"), calls[:2] + later)
    torch.compiler.reset()
    assert "that took alike" in work(curve(step, calls, trace))


@pytest.mark.torch
def test_steps_that_ran_uncompiled_are_no_measure(tmp_path: Path) -> None:
    import torch

    def step(x: Any) -> Any:
        return x.cos().sum()

    torch.compiler.reset()
    calls = [(torch.ones(length),) for length in range(2, 12)] * 4
    trace = recorded(tmp_path, torch.compile(step, backend="eager", dynamic=False), calls)
    torch.compiler.reset()
    compiled = torch.compile(step, backend="eager", dynamic=False)
    assert work(curve(compiled, calls, trace)) == f"{BY_SIZE}: not every call runs compiled"


@pytest.mark.jax
def test_text_page_and_document_have_which_it_was(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import time\n"
        "import coldstep, jax, numpy as np\n"
        "step = jax.jit(lambda x: x + 1)\n"
        "calls = [np.ones(length, np.float32) for length in (1, 2) * 5]\n"
        "if __name__ == '__main__':\n"
        "    for x in calls:\n"
        "        with coldstep.step():\n"
        "            coldstep.wait(step(x))\n"
        "            time.sleep(0.08 * len(x) ** 2)\n"
    )
    program.warm("jax", ["coldstep", "run", "-o", "earlier.pftrace", "--no-live", "train.py"], tmp_path)
    words = ["coldstep", "forecast", "train.py:step", "train.py:calls", "--from", "earlier.pftrace"]
    done = program.warm("jax", words, tmp_path)
    assert f"(bars: compiles and steps; {BY_STEPS}" in done.stdout
    document = json.loads(program.warm("jax", [*words, "--json"], tmp_path).stdout)
    assert document["work"][0]["step_ns"].keys() == {"1", "2"}
    program.warm("jax", [*words, "--html", "out.html"], tmp_path)
    assert BY_STEPS in (tmp_path / "out.html").read_text()


# --- the figures alone ---------------------------------------------------------------------------------------------


def measured(*steps: tuple[int, Sequence[int]]) -> dict[int, int]:
    """Of the steps of each size."""
    walls, sizes = zip(*((wall, size) for size, took in steps for wall in took), strict=True)
    return by_size(walls, sizes, [""] * len(sizes))


def test_the_first_steps_and_calls_without_the_argument_do_not_count() -> None:
    sizes, beside = [4, 4, None, 4, 4, 8, 8, 8], ["weak", "", "no x", *[""] * 5]
    assert by_size([None, 20, 7, 21, 22, 50, 50, 51], sizes, beside) == {4: 21, 8: 50}
    with pytest.raises(NotMeasured, match="more than this size varies between its steps"):
        by_size([20, 20, 7, 21, 22, 50, 50, 51], sizes, beside)


def test_a_size_with_few_steps_lies_between_its_neighbours() -> None:
    known = measured((4, [10] * 3), (6, [70] * 2), (8, [30] * 3))
    assert known == {4: 10, 8: 30}
    assert work_of([4, 6, 7, 8], known) == {4: 10, 6: 20, 7: 25, 8: 30}
    with_it = Curve([("x", 0)], [4, 6, 7, 8], [], 0, known)
    assert work(with_it) == f"{BY_STEPS}; 6 and 7 as between the sizes around"


def test_a_smaller_size_is_never_dearer() -> None:
    known = measured((4, [104] * 3), (5, [100] * 3), (6, [130] * 3))
    assert work_of([4, 5, 6], known) == {4: 104, 5: 104, 6: 130}
    with pytest.raises(NotMeasured, match="steps of size 5 took less than those of a smaller one"):
        measured((4, [120] * 3), (5, [100] * 3), (6, [130] * 3))


@pytest.mark.parametrize("end", [4, 8])
def test_neither_end_is_guessed(end: int) -> None:
    steps = {4: [10, 10, 11], 6: [15, 15, 15], 8: [20, 20, 20]}
    for took in ([steps[end][0]] * 2, [steps[end][0] * times for times in (1, 2, 1, 3, 1, 2)]):
        with pytest.raises(NotMeasured, match=f"too few steady steps of size {end} that took alike"):
            measured(*(steps | {end: took}).items())


@pytest.mark.jax
def test_sizes_that_cost_alike_are_no_plan_of_their_own(tmp_path: Path, made: Callable[[], Any]) -> None:
    calls = ones(LENGTHS)
    only = curve(made(), calls, recorded(tmp_path, made(), calls, took=lambda size: 1000 * max(3, size)))
    assert [plan.buckets for plan in only.plans] == [[2, 3, 4], [4], [3, 4]]
    assert [plan.padding_share for plan in only.plans] == [0, 1 - 10 / 12, 0]


def test_buckets_follow_the_steps() -> None:
    work = {4: 14, 5: 14, 6: 17, 7: 19, 8: 33}
    assert best_buckets([4, 5, 6, 7, 8], 3, work) == [[8], [7, 8], [5, 7, 8]]
    assert best_buckets([4, 5, 6, 7, 8], 3) == [[8], [5, 8], [4, 6, 8]]
