"""Recompiles that had to be for two causes at once: both are named, each with what to do about it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from program import warm

import coldstep
from coldstep.model import Finding, Trace
from coldstep_viewers.report.terminal import render

JAX = """
import jax
import jax.numpy as jnp

def make(scale):
    @jax.jit
    def step(x):
        return jnp.sin(x) * scale
    return step
"""
STATIC = """
import functools
import jax
import jax.numpy as jnp

class Config:
    rate = 0.5

@functools.partial(jax.jit, static_argnames="config")
def step(x, config):
    return jnp.sin(x) * config.rate
"""
TENSORFLOW = """
import tensorflow as tf

def make(scale):
    @tf.function
    def step(x):
        return tf.reduce_sum(x) * scale
    return step
"""
NUMBER = """
import tensorflow as tf

@tf.function
def step(x, weight):
    return tf.reduce_sum(x) * weight

weights = iter(range(100))
"""
TORCH = """
import torch

def make(scale):
    @torch.compile(backend="eager")
    def step(x):
        return (x * scale).sum()
    return step
"""
TURNS = """
for _ in range(2):
    for n in (8, 6, 4):
        {}
"""
SIZES = "in 2 of these also x was f32[8] → f32[6] → f32[4]"


def run(folder: Path, stack: str, program: str) -> Trace:
    (folder / "program.py").write_text(program)
    done = warm(stack, ["coldstep", "run", "--no-live", "--device", "off", "-o", "run.pftrace", "program.py"], folder)
    assert done.returncode == 0, done.stderr
    return coldstep.load(folder / "run.pftrace")


def of_kind(trace: Trace, kind: str) -> list[Finding]:
    return [row for row in trace.findings if row.kind == kind]


@pytest.mark.parametrize(
    ("stack", "program", "call", "first", "once"),
    [
        pytest.param(
            "jax", JAX, "make(2.0)(jnp.ones(n))", "step was 6 different objects", ["step", "x"], marks=pytest.mark.jax
        ),
        pytest.param(
            "jax",
            STATIC,
            "step(jnp.ones(n), Config())",
            "config was 6 different Config objects",
            ["config", "x"],
            marks=pytest.mark.jax,
        ),
        pytest.param(
            "tensorflow",
            TENSORFLOW,
            "make(2.0)(tf.ones(n))",
            "step was 6 different objects",
            ["step", "x"],
            marks=pytest.mark.tensorflow,
        ),
        pytest.param(
            "tensorflow",
            NUMBER,
            "step(tf.ones(n), next(weights))",
            "weight was 0 → 1, 1 → 2, 0 → 3, 1 → 4 and 2 → 5",
            ["weight", "x"],
            marks=pytest.mark.tensorflow,
        ),
    ],
)
def test_a_cause_beside_another_is_counted_and_each_has_its_advice(
    tmp_path: Path, stack: str, program: str, call: str, first: str, once: list[str]
) -> None:
    trace = run(tmp_path, stack, program + TURNS.format(call))
    [finding] = of_kind(trace, "repeat_offender")
    assert finding.text == f"step recompiled 5 times: {first}; {SIZES}"
    assert [row.text.partition(":")[0] for row in finding.remedies] == [f"For {name}" for name in once]
    assert [line.partition(":")[0] for line in finding.advice.splitlines() if line.startswith("For ")] == [
        f"For {name}" for name in once
    ]
    assert [line.partition(",")[2].partition(",")[0] for line in finding.evidence] == [
        " 5 times",
        " 2 times (2 of them beside another cause)",
    ]
    report = " ".join(render(trace, 100).split())
    assert all(report.count(f"For {name}: ") == 1 for name in once)
    assert SIZES in report
    single = sorted(row.text for row in of_kind(trace, "recompile") if "; " in row.text)
    assert len(single) == 2
    assert all("x was f32[" in text and " and " in text.partition(": ")[0] for text in single)


@pytest.mark.jax
def test_whoever_follows_both_pays_for_neither(tmp_path: Path) -> None:
    """What the answer promises is what both save: after one of them the other is left."""
    made_once = JAX + "step = make(2.0)" + TURNS.format("step(jnp.ones(n))")
    trace = run(tmp_path, "jax", made_once)
    assert [(row.cause, row.argument) for row in trace.recompiles] == [("shape", "x")] * 2
    assert not run(tmp_path, "jax", made_once.replace("ones(n)", "ones(8)")).recompiles


@pytest.mark.jax
def test_a_single_recompile_for_two_causes_names_both(tmp_path: Path) -> None:
    program = f"{JAX}for n in (8, 6):\n    make(2.0)(jnp.ones(n))\n"
    [finding] = of_kind(run(tmp_path, "jax", program), "recompile")
    assert "(new_function and shape): step #1 → step #2; x was f32[8], now f32[6]" in finding.text
    assert "For step: " in finding.advice
    assert "\nFor x: JAX compiles once for each shape" in finding.advice


VARIADIC = """
import functools
import jax
import jax.numpy as jnp

@functools.partial(jax.jit, static_argnames="rate")
def step(*xs, rate=1.0):
    return sum(jnp.sum(x["a"] + x["b"]) for x in xs) * rate

def given(kind, other, size):
    return {"a": jnp.ones(4, kind), "b": jnp.ones(4, other)}, {"a": jnp.ones(size), "b": jnp.ones(1)}

step(*given("float32", "float32", 4))
"""


@pytest.mark.jax
@pytest.mark.parametrize(
    ("call", "causes"),
    [
        ("given('int32', 'float32', 1)", {"xs[0]['a']": "dtype", "xs[1]['a']": "shape"}),
        ("({'a': jnp.ones((1, 4), 'int32'), 'b': jnp.ones(4)}, given('float32', 'float32', 4)[1])", {"xs[0]['a']": ""}),
    ],
    ids=["two arguments", "one argument"],
)
def test_two_of_any_number_of_arguments_are_two_places(tmp_path: Path, call: str, causes: dict[str, str]) -> None:
    [finding] = of_kind(run(tmp_path, "jax", f"{VARIADIC}step(*{call})\n"), "recompile")
    assert [each.partition(" was ")[0] for each in finding.text.partition("): ")[2].split("; ")] == [*causes]
    if len(causes) > 1:
        assert all(f"For {place}: " in finding.advice for place in causes)


@pytest.mark.jax
def test_one_cause_is_told_without_a_count(tmp_path: Path) -> None:
    trace = run(tmp_path, "jax", JAX + TURNS.format("make(2.0)(jnp.ones(8))"))
    [finding] = of_kind(trace, "repeat_offender")
    assert finding.text == "step recompiled 5 times: step was 6 different objects"
    assert "For step" not in finding.advice


@pytest.mark.torch
def test_new_functions_of_one_code_share_their_variants_in_torch(tmp_path: Path) -> None:
    trace = run(tmp_path, "torch", TORCH + TURNS.format("make(2.0)(torch.ones(n))"))
    [finding] = of_kind(trace, "recompile")
    assert finding.text.endswith("(shape): x was f32[8], now f32[6]")


@pytest.mark.tensorflow
def test_what_cannot_be_helped_is_named_beside_what_can(tmp_path: Path) -> None:
    modes = 'modes = iter("abcdefgh")\n'
    program = NUMBER.replace("weights = iter(range(100))", modes).replace("* weight", "* len(weight)")
    trace = run(tmp_path, "tensorflow", program + TURNS.format("step(tf.ones(n), next(modes))"))
    [finding] = of_kind(trace, "repeat_offender")
    assert SIZES in finding.text
    assert all(name in render(trace, 100) for name in ("For weight: ", "For x: "))


@pytest.mark.jax
def test_where_the_cause_cannot_be_helped_another_beside_it_saves_nothing(tmp_path: Path) -> None:
    program = STATIC.replace("config.rate", "(x.shape[0] if config == 'sum' else 1)")
    trace = run(
        tmp_path, "jax", f"{program}for n, config in ((8, 'sum'), (6, 'mean')):\n    step(jnp.ones(n), config)\n"
    )
    assert [(row.cause, row.argument) for row in trace.recompiles] == [("static_argument", "config")]
    assert not [row for row in trace.answers if "recompiled" in row.text]


@pytest.mark.jax
def test_two_causes_of_one_argument_are_told_apart(tmp_path: Path) -> None:
    types = 'for n, dtype in ((8, "f4"), (7, "f4"), (6, "f4"), (4, "f4"), (4, "i4")):\n    step(jnp.ones(n, dtype))\n'
    trace = run(tmp_path, "jax", f"{JAX}step = make(2.0)\n{types}")
    [finding] = of_kind(trace, "repeat_offender")
    clauses = {"shape": "3 times x was f32[8] → f32[7] → f32[6] → f32[4]", "dtype": "once x was f32[4] → i32[4]"}
    costs = Counter({cause: sum(row.cost_ns for row in trace.recompiles if row.cause == cause) for cause in clauses})
    dearest = [cause for cause, _ in costs.most_common()]  # on a busy machine the one compile may take more than three
    assert "; ".join(clauses[cause] for cause in dearest) in finding.text
    assert [row.text.partition(":")[0] for row in finding.remedies] == [f"For the {cause} of x" for cause in dearest]


@pytest.mark.jax
def test_a_cause_that_is_beside_another_only_at_times_has_both_counts(tmp_path: Path) -> None:
    calls = "for n in (8, 6, 6, 6):\n    step = make(2.0)\n    step(jnp.ones(n))\nstep(jnp.ones(4))\n"
    [finding] = of_kind(run(tmp_path, "jax", JAX + calls), "repeat_offender")
    assert "3 times step was 4 different objects" in finding.text
    assert "2 times x was f32[8] → f32[6] → f32[4] (1 of them beside another cause)" in finding.text
