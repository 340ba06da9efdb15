"""A training step gets `tf.function` only where its statements do nothing but compute; else its first other line."""

from __future__ import annotations

import pytest
from rewritten import block_of, replaced

from coldstep.analysis.rules.tensorflow_traced import hindrance, is_in_loop, traced

STEP = """\
def step(self, x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(self.model(x))
    self.optimizer.apply_gradients(zip(tape.gradient(loss, self.weights), self.weights, strict=True))
    return loss
"""


def test_a_step_that_computes_is_traced() -> None:
    block = block_of(STEP, 4)
    assert block is not None
    assert not is_in_loop(block, 4)
    assert replaced(STEP, traced(block)) == f"@tf.function\n{STEP}"


@pytest.mark.parametrize(
    "line",
    [
        "self.total += float(loss)",
        "self.last = loss",
        "print(loss)",
        "seen.append(loss)",
        "value = loss.numpy()",
        "norm = np.sqrt(loss)",
        "with tf.device('CPU'):",
        "scale = 1.0 if warm else 0.5",
        "self.optimizer.apply(gradients(loss.numpy()))",
    ],
)
def test_what_reads_or_keeps_a_value_is_named(line: str) -> None:
    text = STEP.replace(
        "    return loss\n", f"    {line}\n{'        pass' if line.endswith(':') else ''}\n    return loss\n"
    )
    block = block_of(text, 4)
    assert block is not None
    kept = hindrance(block)
    assert kept is not None
    assert kept.lineno == 5
    assert traced(block) is None


def test_the_innermost_line_is_named() -> None:
    inner = "    if self.logs:\n        for each in parts:\n            y = tf.abs(each)\n            print(y)\n"
    block = block_of(STEP.replace("    return loss\n", inner), 4)
    kept = hindrance(block) if block is not None else None
    assert kept is not None
    assert kept.lineno == 8


@pytest.mark.parametrize("head", ["@measured\n", ""])
def test_a_decorated_function_and_one_that_names_no_tensorflow_are_left(head: str) -> None:
    text = head + (STEP if head else STEP.replace("tf.", "flow."))
    block = block_of(text, 5)
    assert block is not None
    assert traced(block) is None


def test_a_line_in_a_loop_is_no_step_by_itself() -> None:
    text = "def train(xs):\n    for x in xs:\n        optimizer.apply(grads(x))\n    return x\n"
    block = block_of(text, 3)
    assert block is not None
    assert is_in_loop(block, 3)
