"""A Jacobian outside of any tf.function makes a function of its own in each call, and within one it does not."""

from __future__ import annotations

from pathlib import Path

import program
import pytest

import coldstep

NEWTON = """
import coldstep
import tensorflow as tf

{decorator}
def newton(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        residual = 1.0 - x**2
    return tape.jacobian(residual, x)

with coldstep.trace("run.pftrace"):
    for _ in range(5):
        newton(tf.ones(2))
"""


@pytest.mark.tensorflow
@pytest.mark.parametrize(("decorator", "lines"), [("", [10]), ("@tf.function", [])])
def test_a_function_made_in_each_call_is_told_of_the_line(decorator: str, lines: list[int], tmp_path: Path) -> None:
    program.run(NEWTON.format(decorator=decorator), tmp_path, stack="tensorflow")
    trace = coldstep.load(tmp_path / "run.pftrace")
    rows = [row for row in trace.findings if row.text.startswith("TensorFlow traced a function of its own 5 times")]
    assert [row.location.line for row in rows if row.location is not None] == lines
    assert all("@tf.function" in row.advice and row.remedies[0].code == "" for row in rows)
