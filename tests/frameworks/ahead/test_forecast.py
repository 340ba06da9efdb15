"""A forecast is what then happens, call by call, or says that it does not know; a plan that is followed is kept."""

from __future__ import annotations

import functools
import json
import multiprocessing
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from typing import Any

import browser as tools
import program
import pytest
from playwright.sync_api import Browser, expect
from scenarios import HERE, foretelling
from scenarios.foretelling import Row, happened

import coldstep
from coldstep.ahead.forecast import Forecast, each_call
from coldstep.ahead.forecast_rows import Sizes
from coldstep.ahead.plans import best_buckets, left_open, padded

Done = subprocess.CompletedProcess[str]


def rows(forecast: Forecast) -> list[Row]:
    return [(row.call, row.cause, row.argument, row.before, row.after) for row in forecast.compiles]


def run(function: Callable[..., Any], calls: Sequence[Any], folder: Path) -> list[Row]:
    """What compiles as these calls are made."""
    with coldstep.trace(folder / "run.pftrace", device="off", live=False):
        for call in each_call(calls):
            with coldstep.step("call"):
                coldstep.wait(function(*call.args, **call.kwargs))
    return happened(coldstep.load(folder / "run.pftrace"), "call")


@pytest.fixture
def torch() -> Any:
    """torch, which has compiled nothing: functions of one test share their code."""
    import torch

    torch.compiler.reset()
    return torch


# --- what it loads --------------------------------------------------------------------------------------------------


JAX = "import jax, jax.numpy as x; f = jax.jit(lambda a: a + 1)"
JAX_FED = "import jax, jax.numpy as x; f = jax.jit(lambda a, b: a + b.sum())"
TORCH = "import torch as x; f = x.compile(lambda a: a + 1)"


@pytest.mark.parametrize(
    "made", [pytest.param(JAX, marks=pytest.mark.jax), pytest.param(TORCH, marks=pytest.mark.torch)]
)
def test_a_forecast_of_one_variant_loads_nothing_that_reads_traces_or_plans(made: str, tmp_path: Path) -> None:
    forecast = "coldstep.forecast(f, [x.ones(3), x.ones(3)])"
    assert loaded(made, forecast, tmp_path, "coldstep.analysis") == ["[(0, 'first')] <lambda>", "[]"]


FED = 'coldstep.forecast(f, [coldstep.call(a=0.0, b=x.ones(3))] * 3, feed={"": "a"})'


@pytest.mark.parametrize(
    ("made", "forecast", "cause"),
    [
        pytest.param(JAX, "coldstep.forecast(f, [x.ones(3), x.ones((3, 3))])", "shape", marks=pytest.mark.jax),
        pytest.param(JAX_FED, FED, "weak_type", marks=pytest.mark.jax),
        pytest.param(TORCH, "coldstep.forecast(f, [x.ones(3), x.ones(3).double()])", "dtype", marks=pytest.mark.torch),
    ],
)
def test_nor_does_one_of_two_variants(made: str, forecast: str, cause: str, tmp_path: Path) -> None:
    assert loaded(made, forecast, tmp_path, "jax.extend") == [f"[(0, 'first'), (1, '{cause}')] <lambda>", "[]"]


def loaded(made: str, forecast: str, folder: Path, *heavy: str) -> list[str]:
    """What a forecast says, and what of these it has imported, or of all that reads a trace."""
    source = f"""
import coldstep
{made}
told = {forecast}
print([(row.call, row.cause) for row in told.compiles], told.function)
heavy = ("coldstep.loading", "coldstep.model", "coldstep.pftrace.reader", "coldstep_viewers", *{heavy})
print([name for name in sys.modules if name.startswith(heavy)])
"""
    return program.run(program.ANEW + source, folder, stack=program.stack_of(source)).stdout.splitlines()


# --- buckets ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_buckets_are_as_good_as_the_best_of_all(seed: int) -> None:
    chance = random.Random(seed)
    sizes = [chance.randint(1, 30) ** 2 for _ in range(chance.randint(1, 40))]
    distinct = sorted(set(sizes))[-9:]
    sizes = [size for size in sizes if size in distinct]
    for number, found in enumerate(best_buckets(sizes, 9), start=1):
        best = min(sum(padded(sizes, (*others, distinct[-1]))) for others in combinations(distinct[:-1], number - 1))
        assert (len(found), sum(padded(sizes, found))) == (number, best)


def test_as_many_buckets_as_sizes_pad_nothing() -> None:
    assert best_buckets([5, 3, 5, 9], 100) == [[9], [5, 9], [3, 5, 9]]
    assert best_buckets([], 3) == []


# --- JAX ----------------------------------------------------------------------------------------------------------

_JAX = ("dtype", "keyword_rest", "none_to_tree", "nearest", "pytree_length", "pytree_key", "committed_batch",
        "static_argnames", "static_identity", "weak_type_counter", "rank", "not_settled")  # fmt: skip


@pytest.mark.jax
@pytest.mark.parametrize("name", _JAX)
def test_jax_compiles_as_foretold(name: str) -> None:
    import jax  # noqa: F401

    found = foretelling.run(HERE / "jax" / f"{name}.py")
    assert found
    for held in found:
        assert (held.wrong, held.unknown, held.other_causes) == ([], {}, [])


@pytest.mark.jax
def test_the_second_step_is_foretold_by_one_trace_of_the_function(tmp_path: Path) -> None:
    import jax
    import numpy as np

    traced = []

    @jax.jit
    def step(state: Any, x: Any) -> Any:
        traced.append(1)
        return {"total": state["total"] + x.sum(), "n": state["n"] + 1}, x.mean()

    x = np.ones(3, np.float32)
    start = {"total": 0.0, "n": 0}
    foretold = coldstep.forecast(step, [(start, x)] * 5, feed={"0": "state"})
    assert rows(foretold) == [(0, "first", None, None, None), (1, "weak_type", "state['total']", "f32[] weak", "f32[]")]
    assert (foretold.unknown, len(traced), step._cache_size()) == ([], 1, 0)

    state: Any = start
    with coldstep.trace(tmp_path / "run.pftrace", device="off", live=False):
        for _ in range(5):
            with coldstep.step("call"):
                state, _loss = coldstep.wait(step(state, x))
    assert happened(coldstep.load(tmp_path / "run.pftrace"), "call") == rows(foretold)


@pytest.mark.jax
def test_a_promotion_that_the_one_trace_does_not_show_is_not_guessed() -> None:
    import jax
    import jax.numpy as jnp

    @jax.jit
    def step(state: Any, x: Any) -> Any:
        rate, w = state
        return jnp.float32(1) * rate, w * rate + x  # a weak rate leaves w as it is, a strong one makes it f32

    w = jnp.ones(3, jnp.bfloat16)
    foretold = coldstep.forecast(step, [((0.5, w), w)] * 4, feed={"": "state"})
    assert [row[0] for row in rows(foretold)] == [0, 1]
    assert [row.call for row in foretold.unknown] == [2, 3]
    state: Any = (0.5, w)
    compiled = []
    for number in range(4):
        before = step._cache_size()
        state = step(state, w)
        compiled += [number] * (step._cache_size() - before)
    assert compiled == [0, 1, 2]


@pytest.mark.jax
def test_what_new_types_do_not_reach_may_hold_any_others(tmp_path: Path) -> None:
    import jax
    import jax.numpy as jnp

    scale = jax.jit(lambda rate, by: rate * by)

    @jax.jit
    def step(state: Any, x: Any) -> Any:
        rate, _last, n, w = state
        loss = (w * x).sum()
        _, seen = jax.lax.scan(lambda total, part: (total, total + part), jnp.float32(0), x)
        return (scale(rate, jnp.float32(0.5)) + 0 * seen[0], rate, n + 1, w * 2), loss

    w = jnp.ones(3, jnp.bfloat16)
    x = jnp.ones(3)
    foretold = coldstep.forecast(step, [((0.5, 0.5, 0, w), x)] * 5, feed={"0": "state"})
    state: Any = (0.5, 0.5, 0, w)
    with coldstep.trace(tmp_path / "run.pftrace", device="off", live=False):
        for _ in range(5):
            with coldstep.step("call"):
                state, _loss = coldstep.wait(step(state, x))
    # the rate is strong after the first step, what was the rate after the second
    assert [row[0] for row in rows(foretold)] == [0, 1, 2]
    assert (foretold.unknown, rows(foretold)) == ([], happened(coldstep.load(tmp_path / "run.pftrace"), "call"))


@pytest.mark.jax
def test_a_new_batch_compiles_whatever_the_state_has_become() -> None:
    import jax
    import numpy as np

    step = jax.jit(lambda total, x: total + x.sum())
    calls = [(0.0, np.ones(size, np.float32)) for size in (3, 3, 5, 3, 4, 5)]
    foretold = coldstep.forecast(step, calls, feed={"": "total"})
    assert [(row[0], row[1], row[2]) for row in rows(foretold)] == [
        *((0, "first", None), (1, "weak_type", "total"), (2, "shape", "x"), (4, "shape", "x"))
    ]
    assert [row.call for row in foretold.unknown] == [3, 5]


@pytest.mark.jax
def test_a_function_that_was_called_before_is_not_judged() -> None:
    import jax
    import numpy as np

    step = jax.jit(lambda x: x + 1)
    step(np.ones(3))
    foretold = coldstep.forecast(step, [np.ones(3), np.ones(4)])
    assert (foretold.compiles, [row.call for row in foretold.unknown]) == ([], [0, 1])
    assert "called before" in foretold.unknown[0].why


@pytest.mark.jax
def test_calls_are_said_in_every_form_and_nothing_else_is_guessed() -> None:
    import jax
    import numpy as np

    @functools.partial(jax.jit, static_argnames="twice")
    def step(x: Any, twice: bool = False) -> Any:
        return x * 2 if twice else x

    def calls() -> Iterator[Any]:
        x = np.ones(3)
        yield x
        yield (x,)
        yield coldstep.call(x, twice=True)
        yield coldstep.call(x, twice=True)
        yield [x]  # a list is one argument

    foretold = coldstep.forecast(step, calls)
    assert [(row[0], row[1]) for row in rows(foretold)] == [(0, "first"), (2, "keyword"), (4, "pytree")]


@pytest.mark.jax
def test_a_plan_that_is_followed_compiles_as_often_as_foretold(tmp_path: Path) -> None:
    import jax
    import jax.numpy as jnp

    chance = random.Random(3)
    lengths = [chance.randint(5, 60) for _ in range(40)]

    def calls(pad: Callable[[Any], Any] = lambda x: x) -> Iterator[Any]:
        for length in lengths:
            yield {"tokens": pad(jnp.ones((2, length)))}

    foretold = coldstep.forecast(jax.jit(lambda batch: batch["tokens"].sum()), calls)
    [curve] = foretold.curves
    assert curve.places == [("batch['tokens']", 1)]
    assert curve.plans[0].compiles == len(foretold.compiles) == len(set(lengths))
    shares = [plan.padding_share for plan in curve.plans[1:]]
    assert shares == sorted(shares, reverse=True)
    plan = curve.plans[curve.chosen]
    assert (plan.kind, plan.padding_share <= 0.1) == ("buckets", True)
    assert plan.padding_share == 1 - sum(lengths) / sum(padded(lengths, plan.buckets))
    written: dict[str, Any] = {}
    exec(plan.code.rpartition("\n")[0], written)
    assert plan.code.endswith("batch['tokens'] = padded_1(batch['tokens'])")
    assert (
        len(run(jax.jit(lambda batch: batch["tokens"].sum()), list(calls(written["padded_1"])), tmp_path))
        == plan.compiles
    )


# --- torch.compile ------------------------------------------------------------------------------------------------

_TORCH = ("aliasing", "container_key", "container_rest", "cache_limit", "dtype", "keyword_module", "layout_of_slice",
          "scalar_nested", "scalar_range", "shape_branch", "shape_dims", "shape_marked_one", "shape_unequal",
          "type_none_tensor", "skipped_for_ever")  # fmt: skip


@pytest.mark.torch
@pytest.mark.parametrize("name", _TORCH)
def test_torch_compiles_as_foretold(name: str) -> None:
    import torch._dynamo  # noqa: F401

    found = foretelling.run(HERE / "torch" / f"{name}.py")
    assert found
    for held in found:
        assert (held.wrong, held.unknown, held.other_causes) == ([], {}, [])


_STREAMS = {
    "ragged": [(8, 4)] * 4 + [(5, 4)],
    "growing": [(n, 4) for n in range(2, 9)],
    "two at once": [(8, 4), (6, 3), (7, 5), (1, 4), (7, 0)],
    "square": [(4, 4), (6, 6), (7, 7), (5, 6), (9, 9)],
    "one at a time": [(4, 8), (4, 6), (5, 7), (9, 9), (3, 8)],
}


@pytest.mark.torch
@pytest.mark.parametrize("stream", _STREAMS)
def test_sizes_compile_as_foretold_and_as_the_rule_says(stream: str, torch: Any, tmp_path: Path) -> None:
    @torch.compile(backend="eager")
    def step(x: Any) -> Any:
        return x.sin() + 1

    calls = [torch.ones(shape) for shape in _STREAMS[stream]]
    foretold = coldstep.forecast(step, calls)  # before: it must leave no trace in what PyTorch learns of sizes
    assert (rows(foretold), foretold.unknown) == (run(step, calls, tmp_path), [])
    assert left_open([Sizes({"x": shape}, None) for shape in _STREAMS[stream]]) == [
        row.call for row in foretold.compiles
    ]


@pytest.mark.torch
def test_variants_that_are_there_judge_what_comes(torch: Any, tmp_path: Path) -> None:
    @torch.compile(backend="eager")
    def step(x: Any, scale: float = 2.0) -> Any:
        return x * scale

    for size in (8, 6):
        step(torch.ones(size))
    calls = [torch.ones(5), torch.ones(1), torch.ones(9), (torch.ones(3), 2.0), torch.ones(4, dtype=torch.float64)]
    foretold = coldstep.forecast(step, calls)
    assert [row[0] for row in rows(foretold)] == [1, 4]
    assert rows(foretold)[1][1:] == ("dtype", "x", "f32[1]", "f64[4]")
    assert [row[0] for row in run(step, calls, tmp_path)] == [1, 4]


@pytest.mark.torch
def test_nothing_runs_and_nothing_is_left_behind(torch: Any) -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lin = torch.nn.Linear(4, 3)
            self.calls = 0

        def forward(self, x: Any) -> Any:
            self.calls += 1
            x.add_(1)
            return self.lin(x)

    net, x = Net(), torch.zeros(2, 4)
    foretold = coldstep.forecast(torch.compile(net), [x, x])
    assert (net.calls, x.sum().item()) == (0, 0)
    assert [row[0] for row in rows(foretold)] == [0]
    assert "changes what lies outside" in foretold.unknown[0].why  # the counter is a constant in the next graph


@pytest.mark.torch
def test_what_lies_behind_a_graph_break_is_not_guessed(torch: Any) -> None:
    printed = []

    @torch.compile(backend="eager")
    def step(x: Any) -> Any:
        x = x + 1
        torch._dynamo.graph_break()
        printed.append(1)
        return x * 2

    foretold = coldstep.forecast(step, [torch.ones(3), torch.ones(4)])
    assert (rows(foretold), printed) == ([(0, "first", None, None, None)], [])
    assert [(row.call, "graph break" in row.why) for row in foretold.unknown] == [(1, True)]


@pytest.mark.torch
def test_the_limit_is_foretold(torch: Any, tmp_path: Path) -> None:
    @torch.compile(backend="eager", dynamic=False)
    def step(x: Any) -> Any:
        return x + 1

    calls = [torch.ones(size) for size in range(2, 14)]
    foretold = coldstep.forecast(step, calls)
    assert (len(foretold.compiles), foretold.limit_at) == (8, 8)
    assert run(step, calls, tmp_path) == rows(foretold)


@pytest.mark.torch
def test_marking_a_size_or_padding_it_compiles_as_often_as_the_plan_says(torch: Any, tmp_path: Path) -> None:
    lengths = [9, 5, 7, 5, 1, 9, 3, 8]

    def calls() -> list[Any]:
        return [torch.ones(2, length) for length in lengths]

    def step(x: Any) -> Any:
        return x.cos()

    foretold = coldstep.forecast(step, calls)
    assert "as if it were under torch.compile" in foretold.notes[0]
    [curve] = foretold.curves
    plans = {plan.kind if plan.kind != "buckets" else len(plan.buckets): plan for plan in curve.plans}
    assert {kind: plan.compiles for kind, plan in plans.items()} == {
        **{"as_it_is": 3, "dynamic": 2, "longest": 1},
        **{2: 2, 3: 3, 4: 3, 5: 3},
    }
    for plan in (plans["dynamic"], plans["longest"], plans[2]):
        written: dict[str, Any] = {}
        definition, _, last = plan.code.rpartition("\n")
        exec(definition, written)
        given = []
        for x in calls():
            written |= {"torch": torch, "x": x}
            exec(last, written)
            given.append(written["x"])
        torch.compiler.reset()
        assert len(run(torch.compile(step, backend="eager"), given, tmp_path)) == plan.compiles


# --- TensorFlow ---------------------------------------------------------------------------------------------------

_TENSORFLOW = ("relaxed_again", "relaxed_then_number", "scalar_bool", "pytree_type", "shape_of_rest", "type_variable",
               "xla_shape", "xla_shape_relaxed", "xla_saved")  # fmt: skip


@pytest.fixture(scope="module")
def apart() -> Iterator[ProcessPoolExecutor]:
    """A process that may import TensorFlow: other tests of this one say which frameworks they watch."""
    if find_spec("tensorflow") is None:
        pytest.skip("there is no TensorFlow")
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), import_module, ("tensorflow",)) as pool:
        yield pool


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", _TENSORFLOW)
def test_tensorflow_traces_as_foretold(name: str, apart: ProcessPoolExecutor) -> None:
    found = apart.submit(foretelling.run, HERE / "tensorflow" / f"{name}.py").result()
    assert found
    for held in found:
        assert (held.wrong, held.unknown, held.other_causes) == ([], {}, [])


@pytest.mark.tensorflow
def test_what_xla_compiles_within_a_function_is_not_guessed(apart: ProcessPoolExecutor) -> None:
    [held] = apart.submit(foretelling.run, HERE / "tensorflow" / "xla_shape_inner.py").result()
    assert (held.wrong, list(held.unknown)) == ([], [3])
    [held] = apart.submit(foretelling.run, HERE / "tensorflow" / "xla_captured.py").result()
    assert (held.wrong, list(held.unknown)) == ([], [1, 2, 3, 4, 5])


@pytest.mark.tensorflow
def test_a_function_that_has_graphs_is_judged_by_them(apart: ProcessPoolExecutor) -> None:
    foretold, graphs, graphs_after = apart.submit(_of_a_function_with_a_graph).result()
    assert [row[0] for row in foretold] == [1, 2, 4]
    assert graphs_after == graphs


def _of_a_function_with_a_graph() -> tuple[list[Row], int, int]:
    """What is foretold of it, and its number of graphs before and after that."""
    import tensorflow

    @tensorflow.function
    def step(x: Any, n: int = 1) -> Any:
        return x * n

    step(tensorflow.ones(3))
    graphs = step.experimental_get_tracing_count()
    ones = tensorflow.ones
    foretold = coldstep.forecast(step, [ones(3), coldstep.call(ones(3), n=2), ones(4), ones(3), (ones(3), object)])
    return rows(foretold), graphs, step.experimental_get_tracing_count()


# --- prices, and the edges -----------------------------------------------------------------------------------------


@pytest.mark.jax
def test_costs_come_from_an_earlier_trace_of_the_function(tmp_path: Path) -> None:
    import jax
    import numpy as np

    def step(x: Any) -> Any:
        return x + 1

    calls = [np.ones(size) for size in (3, 3, 3, 3, 3, 4)]
    with coldstep.trace(tmp_path / "earlier.pftrace", device="off", live=False):
        once = jax.jit(step)
        for x in calls:
            with coldstep.step():
                coldstep.wait(once(x))
    trace = coldstep.load(tmp_path / "earlier.pftrace")
    first, again = (row for row in trace.compiles if row.function == "step")
    jax.clear_caches()
    foretold = coldstep.forecast(jax.jit(step), calls, trace=tmp_path / "earlier.pftrace")
    assert [row.cost_ns for row in foretold.compiles] == [first.wall_ns, again.wall_ns]
    [curve] = foretold.curves
    steady = trace.cost[0].steady_step_ns
    assert steady is not None
    assert curve.plans[0].total_ns == round(first.wall_ns + again.wall_ns + steady * len(calls))
    assert curve.plans[curve.chosen].total_ns == min(plan.total_ns or 0 for plan in curve.plans)
    jax.clear_caches()
    other = coldstep.forecast(jax.jit(lambda x: x), calls, trace=trace)
    assert [row.cost_ns for row in other.compiles] == [None, None]
    assert "not known" in other.notes[0]


def test_a_function_of_no_framework_is_refused(tmp_path: Path) -> None:
    done = program.run("import coldstep\ncoldstep.forecast(lambda x: x, [object()])", tmp_path, check=False)
    assert "ValueError: cannot see which framework compiles this function" in done.stderr


@pytest.mark.jax
def test_within_a_trace_nothing_is_tried(tmp_path: Path) -> None:
    import jax

    with (
        coldstep.trace(tmp_path / "run.pftrace", device="off", live=False),
        pytest.raises(RuntimeError, match="active"),
    ):
        coldstep.forecast(jax.jit(lambda x: x), [1.0])


# --- the command ---------------------------------------------------------------------------------------------------

_TRAIN = """
import jax
import numpy as np

print("building the data set")

@jax.jit
def step(total, x):
    return total + x.sum()

lengths = (3, 3, 5, 3, 4)
calls = [(0.0, np.ones((2, n), np.float32)) for n in lengths]

def loader():
    raise OSError("no such bucket")

text = "<script>alert(1)</script>"
"""


@pytest.fixture
def train(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(_TRAIN)
    return tmp_path


def command(*words: str, cwd: Path) -> Done:
    return program.warm("jax", ["coldstep", "forecast", *words], cwd, check=False)


@pytest.mark.jax
def test_the_command_prints_the_document(train: Path) -> None:
    done = command("train.py:step", "train.py:calls", "--feed", ":total", "--json", cwd=train)
    assert (done.returncode, done.stderr) == (0, "building the data set\n")
    found = json.loads(done.stdout)
    assert (found["schema"], found["calls"], found["limit_at"]) == ("coldstep-forecast/1", 5, None)
    assert found["compiles"][1] == {
        **{"call": 1, "cause": "weak_type", "argument": "total", "before": "f32[] weak", "after": "f32[]"},
        "cost_ns": None,
    }
    assert [row["call"] for row in found["unknown"]] == [3]
    keys = {"argument", "dimension", "buckets", "compiles", "padding_share", "total_ns", "code"}
    assert all(row.keys() >= keys for row in found["plans"])
    assert (found["plans"][0]["argument"], found["plans"][0]["dimension"]) == ("x", 1)


@pytest.mark.jax
def test_the_page_shows_calls_and_curve_and_asks_nobody(train: Path, browser: Browser) -> None:
    done = command("train.py:step", "train.py:calls", "--html", "out.html", cwd=train)
    assert (done.returncode, done.stdout) == (0, "out.html\n")
    with tools.opened(browser, train / "out.html") as seen:
        expect(seen.page.get_by_role("heading", level=1)).to_have_text("step (JAX): of 5 calls, 3 will compile")
        expect(seen.page.locator("#compiles tbody tr")).to_have_count(3)
        expect(seen.page.locator("#compiles tbody tr").nth(1)).to_contain_text("x: f32[2,3] → f32[2,5]")
        expect(seen.page.locator("svg circle")).to_have_count(3)
        expect(seen.page.locator("pre")).to_contain_text("def padded_1(x):")
        seen.assert_quiet()


@pytest.mark.jax
def test_the_text_shows_the_curve_and_the_code(train: Path) -> None:
    done = command("train.py:step", "train.py:calls", cwd=train)
    assert done.returncode == 0
    assert "call 2  shape  x: f32[2,3] → f32[2,5]" in done.stdout
    assert "dimension 1 of x: 3 sizes from 3 to 5. What can be done:" in done.stdout
    assert any(line.startswith("  padded to the longest, 5  1 compile ") for line in done.stdout.splitlines())
    assert "    def padded_1(x):" in done.stdout


@pytest.mark.jax
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("train.py train.py:calls", "train.py: it is written FILE:NAME, as train.py:train_step"),
        ("train.py:nix train.py:calls", "train.py has no nix"),
        ("nix.py:step train.py:calls", "nix.py is no file"),
        ("train.py:text train.py:calls", "train.py:text is no function"),
        ("train.py:step train.py:loader", "train.py:loader cannot be gone through: OSError: no such bucket"),
        ("train.py:step train.py:calls --feed 3:total", "the result has nothing at '3' to feed"),
        ("train.py:step train.py:calls --feed total", "--feed total: it is written RESULT:ARGUMENT, as 0:state"),
    ],
)
def test_what_cannot_be_is_one_line(
    words: str, said: str, train: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from coldstep_viewers.commands.compare.forecast import command

    monkeypatch.chdir(train)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "train", raising=False)
    with pytest.raises(SystemExit) as ended:
        command.main(words.split(), standalone_mode=False)
    out, err = capfd.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert err.removeprefix("building the data set\n") == f"coldstep: {said}\n"
