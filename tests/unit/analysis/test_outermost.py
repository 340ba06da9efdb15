"""A transform is jitted above the loop that calls it, only where the loop leaves it as it is."""

from __future__ import annotations

import pytest
from rewritten import block_of, replaced

from coldstep.analysis.remedies.outermost import _above_the_loop


def jitted_above(text: str, line: int) -> str | None:
    block = block_of(text, line)
    written = _above_the_loop(block, line) if block is not None else None
    return replaced(text, written) if written is not None else None


def test_a_name_is_jitted_above_the_loop() -> None:
    loop = "for x in xs:\n    y = mapped(x)\n"
    assert jitted_above(loop, 2) == f"from jax import jit\nmapped = jit(mapped)\n{loop}"


def test_what_a_line_makes_has_a_name() -> None:
    loop = "for x in xs:\n    y = 2 * jax.vmap(score, in_axes=1)(x)\n"
    jitted = "transformed = jax.jit(jax.vmap(score, in_axes=1))\nfor x in xs:\n    y = 2 * transformed(x)\n"
    assert jitted_above(loop, 2) == jitted


def test_a_loop_in_a_function_is_written_with_its_indentation() -> None:
    text = "def fit(mapped, xs):\n    for x in xs:\n        y = mapped(x)\n"
    jitted = "    from jax import jit\n    mapped = jit(mapped)\n    for x in xs:"
    assert jitted_above(text, 3) == text.replace("    for x in xs:", jitted)


@pytest.mark.parametrize(
    "text",
    [
        "def fit(xs):\n    for x in xs:\n        y = mapped(x)\n",  # another's name: it would be a local one
        "def fit(mapped, xs):\n    y = mapped(x)\n    return y\n",  # no loop
        "for score in scores:\n    f = jax.vmap(score)\n    y = f(x)\n",
        "for score in scores:\n    y = 1\n    y = jax.vmap(score)(x)\n",
        "for score in scores:\n    y = 1\n    y = obj.mapped(x)\n",
    ],
)
def test_elsewhere_it_is_left_to_words(text: str) -> None:
    assert jitted_above(text, 3) is None
