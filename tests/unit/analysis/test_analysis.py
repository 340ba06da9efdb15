"""What the analyses make of real runs: settling, labels, patterns, and findings that sum up."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from sample_trace import sample
from scenarios import warm

import coldstep
from coldstep.analysis import breaks
from coldstep.analysis.budgets import judge, parse
from coldstep.analysis.findings import findings
from coldstep.analysis.recompiles.rows import recompiles
from coldstep.model import Details, Signature, Trace

pytestmark = pytest.mark.jax


def run(folder: Path, calls: Iterable[Callable[[], object]], name: str = "train") -> Trace:
    """The trace of a run in which each call is a step; all that another test has imported is watched."""
    with coldstep.trace(folder / "t.pftrace", collectors=["jax", "dynamo", "tensorflow"]) as session:
        for call in calls:
            with coldstep.step(name):
                coldstep.wait(call())
    return coldstep.load(session.path)


def sized(*sizes: int) -> list[Callable[[], object]]:
    """Calls of one fresh jitted function with vectors of these sizes."""
    import jax
    import numpy as np

    @jax.jit
    def train_step(x: object) -> object:
        return x * 2  # type: ignore[operator]

    return [lambda n=n: train_step(np.ones(n, np.float32)) for n in sizes]  # type: ignore[misc]


def labels(trace: Trace) -> list[str | None]:
    return [interval.label for interval in trace.intervals if interval.kind == "step"]


def test_settling_needs_three_quiet_steps_in_a_row(tmp_path: Path) -> None:
    trace = run(tmp_path, sized(4, 3, 4, 4, 2, 4, 4, 4, 1))
    [settling] = trace.settling
    assert (settling.verdict, settling.settled_at_step) == ("settled", 5)
    assert labels(trace) == ["first", *["settling"] * 4, *["steady"] * 3, "recompiled"]
    assert [(cause.step, cause.cause) for cause in settling.causes] == [(1, "shape"), (4, "shape")]
    [cost] = trace.cost
    assert cost.time_to_settled_ns == trace.processes[0].before_trace_ns + trace.intervals[11].start_ns
    assert cost.steady_step_ns is not None


def test_six_steps_without_three_quiet_ones_have_not_settled(tmp_path: Path) -> None:
    trace = run(tmp_path, sized(1, 2, 3, 4, 5, 6))
    assert trace.settling[0].verdict == "not_settled"
    assert {"not_settled", "repeat_offender"} <= {finding.kind for finding in trace.findings}
    [offender] = [finding for finding in trace.findings if finding.kind == "repeat_offender"]
    assert "x was f32[1] → f32[2] → f32[3] → f32[4] → f32[5] → f32[6]" in offender.text
    assert offender.cost_ns == sum(row.cost_ns for row in trace.recompiles)
    assert {row.pattern for row in trace.recompiles} == {"growing"}


def test_sizes_that_happen_to_rise_are_not_called_growing(tmp_path: Path) -> None:
    trace = run(tmp_path, sized(3, 5, 6, 15))
    assert [row.pattern for row in trace.recompiles] == [None] * 3
    assert "pad x to one size, or to a few (powers of two)" in trace.recompiles[-1].advice


def test_too_few_steps_are_said_to_be_too_few(tmp_path: Path) -> None:
    assert run(tmp_path, sized(4, 4)).settling[0].verdict == "too_few_steps"


def test_a_smaller_last_batch_is_told_from_one_in_the_middle(tmp_path: Path) -> None:
    trace = run(tmp_path, sized(4, 4, 3, 4, 2))
    assert [(row.step, row.pattern) for row in trace.recompiles] == [(2, None), (4, "last_batch")]
    middle, last = (row.advice for row in trace.recompiles)
    assert "pad the last batch" in last
    assert "pad the last batch" not in middle


def test_words_that_nobody_knows_are_unknown_with_all_that_differed(tmp_path: Path) -> None:
    trace = sample()
    before = Signature({"x": "f32[3]"}, {"grad_mode": "on"})
    for compile_ in trace.compiles:
        trace.details[compile_.id] = Details(compile_.key, before, previous={"c1": "c0", "c3": "c2"}.get(compile_.id))
    trace.details["c3"].signature = Signature({"x": "f32[4]"}, {"grad_mode": "off"})
    trace.details["c3"].guard_failures = ["0/0: the moon was full"]
    row = next(row for row in recompiles(trace) if row.compile == "c3")
    assert (row.cause, row.argument) == ("unknown", None)
    assert row.evidence == ["0/0: the moon was full", "x: f32[3] → f32[4]", "grad_mode: on → off"]


def test_three_functions_of_one_name_are_no_repeat_offender(tmp_path: Path) -> None:
    import jax
    import numpy as np

    functions = [
        jax.jit(lambda x: x + 1),
        jax.jit(lambda x: x + 2),
        jax.jit(lambda x: x + 3),
    ]
    calls = [lambda f=f, n=n: f(np.ones(n, np.float32)) for n in (4, 3) for f in functions]
    trace = run(tmp_path, calls)
    assert len(trace.recompiles) == 3
    assert "repeat_offender" not in {finding.kind for finding in trace.findings}


def test_eager_operations_that_compile_in_later_steps_are_told(tmp_path: Path) -> None:
    import jax.numpy as jnp

    calls = [*sized(4, 4, 4, 4), *(lambda n=n: jnp.linalg.qr(jnp.tanh(jnp.ones((n, n)))) for n in (31, 33))]
    trace = run(tmp_path, calls)
    assert trace.settling[0].settled_at_step == 1
    [finding] = [row for row in trace.findings if row.kind == "eager_compiles" and row.step]
    assert finding.severity == "warning"
    assert "2 later steps of train" in finding.text
    assert finding.cost_ns > 0
    assert finding.location is not None
    assert finding.location.file.endswith("test_analysis.py")


@pytest.mark.parametrize("inside", [True, False])
def test_an_eager_operation_that_compiles_in_step_after_step_keeps_them_from_settling(
    inside: bool, tmp_path: Path
) -> None:
    import jax.numpy as jnp

    beta = jnp.float32(0.9)
    [call] = sized(4)
    with coldstep.trace(tmp_path / "t.pftrace", collectors=["jax"]) as session:
        for n in range(8):
            with coldstep.step("train"):
                coldstep.wait(call())
                if inside:
                    beta ** (n + 20)
            if not inside:
                beta ** (n + 40)
    trace = coldstep.load(session.path)
    [settling] = trace.settling
    assert (settling.verdict, settling.settled_at_step) == ("not_settled", None)
    assert [cause.text.partition(" in ")[0] for cause in settling.causes] == [
        f"the eager operation integer_pow compiled {7 if inside else 8} times,"
    ]
    [found] = [row for row in trace.findings if row.kind == "eager_compiles"]
    assert len(found.refs) == (7 if inside else 8)
    assert found.location is not None
    assert (
        found.location.function == "test_an_eager_operation_that_compiles_in_step_after_step_keeps_them_from_settling"
    )
    assert "Python numbers" in found.advice
    [check] = judge([trace], parse({"settle_by": 2})).checks
    assert (check.verdict, [row.refs for row in check.findings]) == ("over", [found.refs])


@pytest.mark.parametrize("steps", [True, False])
def test_a_scan_that_is_given_a_new_function_each_time_has_an_answer_at_its_line(steps: bool, tmp_path: Path) -> None:
    import jax
    import jax.numpy as jnp

    def once(carry: Any, x: Any) -> Any:
        return (carry[0] + carry[1] * x, carry[1]), carry[0]

    def call(n: int) -> None:
        jax.lax.scan(lambda carry, x: (carry + n * x, carry), jnp.float32(0), xs)
        jax.lax.scan(once, (jnp.float32(0), jnp.float32(n)), xs)

    xs = jnp.arange(37.0)
    with coldstep.trace(tmp_path / "t.pftrace", collectors=["jax", "dynamo", "tensorflow"]) as session:
        for n in range(6):
            with coldstep.step("train") if steps else nullcontext():
                call(n)
    trace = coldstep.load(session.path)
    line = call.__code__.co_firstlineno + 1
    [anew] = (row for row in trace.findings if row.kind == "eager_compiles" and "scan" in row.text)
    assert anew.text == "scan compiled 6 times, for inputs of the same types" + (
        ", in 5 steps or right behind them" if steps else ""
    )
    assert anew.location is not None
    assert anew.location.line == line
    assert "once, outside of the loop" in anew.advice
    [first, *_] = trace.answers
    assert (first.finding, first.location) == (anew.id, anew.location)


SCANS = """import jax
import jax.numpy as jnp

rates, scale = jnp.arange(7.0), 1.0


def shown(x):
    print("x", x[0])
    return x


class Log:
    def shown(self, x):
        print("x", x[0])
        return x


log = Log()


def summed_and_logged(x):
    def turn(carry, rate):
        return carry + rate * x, None

    y = log.shown(x)
    return jax.lax.scan(turn, y, rates)


def bounded(x):
    if x[0] > 1e9:
        return x * 0
    return x


def summed_and_bounded(x):
    def turn(carry, rate):
        return carry + rate * x, None

    y = bounded(x)
    return jax.lax.scan(turn, y, rates)


def summed(x):
    def turn(carry, rate):
        return carry + scale * rate * x, None

    return jax.lax.scan(turn, jnp.zeros(3), rates)


def summed_and_shown(x):
    def turn(carry, rate):
        return carry + rate * x, None

    y = shown(x)
    return jax.lax.scan(turn, y, rates)


def summed_times(x, number):
    def turn(carry, rate):
        return carry + number * rate * x, None

    return jax.lax.scan(turn, jnp.zeros(3), rates)
"""


@pytest.mark.parametrize(
    ("call", "is_jitted"),
    [
        ("summed(x)", True), ("summed(x); scale = n + 2.0", False), ("summed_and_shown(x)", False),
        ("summed_and_bounded(x)", False), ("summed_and_logged(x)", False), ("summed_times(x, n)", False),
    ],
)  # fmt: skip
def test_a_function_is_given_to_jit_only_where_it_is_called_with_arrays_and_reads_the_same(
    call: str, is_jitted: bool, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(f"{SCANS}\n\nfor n in range(4):\n    x = jnp.full(3, n + 0.5)\n    {call}\n")
    done = warm.server("jax", sys.executable).run(["coldstep", "run", "--no-live", "-o", "t.pftrace", str(program)],
                                                  tmp_path)  # fmt: skip
    assert done[0] == 0, done[1]
    [scan] = (row for row in coldstep.load(tmp_path / "t.pftrace").findings if row.text.startswith("scan compiled"))
    assert len(scan.refs) == 4
    assert ["@jax.jit" in row.code for row in scan.remedies] == [is_jitted]


def test_steps_that_do_not_wait_for_jax_are_said_to_measure_dispatch(tmp_path: Path) -> None:
    [call, *_] = sized(4)
    with coldstep.trace(tmp_path / "t.pftrace", collectors=["jax", "dynamo", "tensorflow"]) as session:
        for _ in range(3):
            with coldstep.step("hasty"):
                call()
            with coldstep.step("patient"):
                coldstep.wait(call())
            with coldstep.step("python"):
                coldstep.wait(0)
            with coldstep.step("nothing"):
                pass
    found = [row for row in coldstep.load(session.path).findings if row.kind == "dispatch_timed"]
    assert [row.text.partition(":")[0] for row in found] == ["hasty"]


def test_without_marks_each_function_has_a_row_that_claims_no_more_than_was_seen(tmp_path: Path) -> None:
    with coldstep.trace(tmp_path / "t.pftrace", collectors=["jax", "dynamo", "tensorflow"]) as session:
        for call in sized(4, 3):
            coldstep.wait(call())
    [row] = coldstep.load(session.path).settling
    assert (row.by, row.name, row.verdict) == ("function_call", "train_step", "not_observable")
    assert [(cause.step, cause.cause) for cause in row.causes] == [(None, "shape")]


def test_eager_operations_amid_a_run_without_steps_are_told_from_its_initialisation(tmp_path: Path) -> None:
    import jax.numpy as jnp

    [call] = sized(4)
    with coldstep.trace(tmp_path / "t.pftrace", collectors=["jax", "dynamo", "tensorflow"]) as session:
        weights = [jnp.full(size, 0.5) for size in range(21, 28)]
        call()
        for size in range(41, 46):
            weights.append(jnp.append(jnp.ones(size), 1.0))
    found = [row for row in coldstep.load(session.path).findings if row.kind == "eager_compiles"]
    assert sorted(row.severity for row in found) == ["note", "warning"]
    [amid] = [row for row in found if row.severity == "warning"]
    assert "append" in amid.text
    assert "jitted function" in amid.advice


_UNKNOWN_C = (
    "Attempted to call function marked as skipped: Dynamo does not know how to trace the builtin `{}` This function is "
    "either a Python builtin (e.g. _warnings.warn) or a third-party C/C++ Python extension."
)


_DELAYED = (
    "Unsupported function call (delayed): Dynamo determined that a graph break should occur when calling `G['net']`. "
    "Reason: {}"
)


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        (
            "Attempted to inline function marked as skipped: the function `Optimizer.zero_grad`.",
            ": Attempted to inline function marked as skipped (Optimizer.zero_grad)",
        ),
        ("Unsupported Tensor.item() call with capture_scalar_outputs=False: Dynamo does `Tensor.item()`",
         ": Unsupported Tensor.item() call with capture_scalar_outputs=False"),
        (_DELAYED.format("Dynamo does not support RNN or LSTM. Set torch._dynamo.config.allow_rnn=True to enable it"),
         ": Dynamo does not support RNN or LSTM"),
        (_DELAYED.format("Optimized `nn.Module` is wrapped with `torch.compiler.disable` (reason: None)"),
         ": Optimized nn.Module is wrapped with torch.compiler.disable"),
        ("Unsupported: builtin: print [<class 'int'>] False", ""),
        ("call_function BuiltinVariable(print) [] {}", ""),
    ],
)  # fmt: skip
def test_a_graph_break_is_named_by_what_broke_it(reason: str, text: str) -> None:
    trace = sample()
    trace.graph_breaks[0].reason = reason
    row = trace.graph_breaks[0]
    [broken] = (each for each in findings(trace) if each.kind == "graph_break")
    assert broken.text == f"Graph break in {row.function} ({row.kind}), 2 times{text}"


@pytest.mark.parametrize(
    ("reason", "advised"),
    [
        (_UNKNOWN_C.format("<unknown module>.Random.random."), "torch.rand"),
        (_UNKNOWN_C.format("zlib.crc32."), "custom operator"),
        (_UNKNOWN_C.replace("{}", "_warnings.warn."), "Print or warn"),
        (
            "Attempted to call function marked as skipped: Dynamo does not know how to trace the Python builtin "
            "`_warnings.warn`.",
            "Print or warn",
        ),
        ("setattr() on Tensor.requires_grad: setattr() on Tensor.requires_grad not supported.", "before the compiled"),
        (
            "Unsupported method call: Dynamo does not know how to trace method `get` of class `ContextVar`",
            "pass its value in",
        ),
        ("Failed to trace builtin operator `print`: Dynamo does not know how to trace it.", "Print or warn"),
        ("Attempted to inline function marked as skipped: the function `Optimizer.zero_grad`.", "Call zero_grad()"),
        (
            _DELAYED.format("Dynamo does not support RNN. Set torch._dynamo.config.allow_rnn=True to enable it"),
            "Set torch._dynamo.config.allow_rnn=True to enable it.",
        ),
        (_DELAYED.format("Getting an inplace view on a graph input is not supported"), "x = x.t() for x.t_()"),
        ("Dynamic shape operator (aten.repeat_interleave.Tensor)", "output_size"),
        ("Dynamic shape operator (aten.bincount.default)", "capture_dynamic_output_shape_ops"),
    ],
)
def test_the_advice_for_a_graph_break_fits_what_broke_it(reason: str, advised: str) -> None:
    trace = sample()
    [row] = trace.graph_breaks
    row.kind, row.reason = "unsupported_call", reason
    breaks.advise(trace)
    assert advised in row.advice
