"""A slice is written as `dynamic_slice_in_dim` only where its length is fixed."""

from __future__ import annotations

import pytest
from rewritten import block_of, replaced

from coldstep.analysis.remedies.windows import with_dynamic_slice


def sliced(line: str, head: str = "def f(x, start, n):\n") -> str | None:
    text = f"{head}    {line}\n"
    block = block_of(text, 2)
    return replaced(text, with_dynamic_slice(block, 2)) if block is not None else None


@pytest.mark.parametrize(
    ("line", "made"),
    [
        ("return x[start : start + SIZE]", "return dynamic_slice_in_dim(x, start, SIZE)"),
        ("w = 2 * x[:, 2 * start : 2 * start + 8]", "w = 2 * dynamic_slice_in_dim(x, 2 * start, 8, axis=1)"),
    ],
)
def test_a_slice_of_fixed_length_is_a_call(line: str, made: str) -> None:
    assert sliced(line) == f"def f(x, start, n):\n    from jax.lax import dynamic_slice_in_dim\n    {made}\n"


@pytest.mark.parametrize(
    "line",
    [
        "return x[start:]",
        "return x[start : start + n]",
        "return x[start : start + len(x)]",
        "return x[start : stop]",
        "return x[start : start + SIZE : 2]",
        "return x[start : start + SIZE, 0]",
        "return x[start : start + SIZE] + x[start + 1 : start + 1 + SIZE]",
        "return g(x)[start : start + SIZE]",
        "x[start : start + SIZE] = 0",
    ],
)
def test_another_slice_stays(line: str) -> None:
    assert sliced(line) is None
