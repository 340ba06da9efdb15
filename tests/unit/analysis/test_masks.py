"""A boolean mask is written as `where` only where it is clear that it has an entry for each of the array's."""

from __future__ import annotations

from typing import Any

import pytest
from rewritten import block_of, replaced

from coldstep.analysis.remedies.masks import with_where


def masked(body: str, line: int = 2) -> str | None:
    text = f"def f(x, y, z):\n{body}    return x\n"
    block = block_of(text, line)
    written = with_where(block, line) if block is not None else None
    made = replaced(text, written)
    return made.removeprefix("def f(x, y, z):\n").removesuffix("    return x\n") if made is not None else None


@pytest.mark.parametrize(
    ("body", "made"),
    [
        ("    x = x.at[x > 1].set(-2 * x[x > 1])\n", "    x = jnp.where(x > 1, -2 * x, x)\n"),
        ("    x = x.at[~jnp.isnan(x)].multiply(x[~jnp.isnan(x)])\n", "    x = jnp.where(~jnp.isnan(x), x * x, x)\n"),
        ("    p = x[x > 1]\n    x = x.at[x > 1].add(-p)\n", "    x = jnp.where(x > 1, x + -x, x)\n"),
        ("    z = y + jnp.sum(x[x > y])\n", "    z = y + jnp.sum(x, where=x > y)\n"),
        ("    z = x[(x > 0) & (x < y)].mean()\n", "    z = x.mean(where=(x > 0) & (x < y))\n"),
        ("    z = jnp.mean(jnp.abs(x[x > 0]) ** 2)\n", "    z = jnp.mean(jnp.abs(x) ** 2, where=x > 0)\n"),
    ],
)
def test_what_a_mask_picks_is_computed_of_the_whole_array(body: str, made: str) -> None:
    made = made.replace("x + -x", "x + (-x)").replace("x * x", "x * (x)")
    assert masked(f"    k = jnp.pi\n{body}", 3) == f"    k = jnp.pi\n{made}"


@pytest.mark.parametrize(
    "body",
    [
        "    z = jnp.mean(x[y > 0])\n",  # of rows, perhaps
        "    z = jnp.mean(x[y])\n",
        "    z = jnp.mean(x[jnp.sum(x) > 0])\n",
        "    z = jnp.max(x[x > 0])\n",
        "    z = jnp.mean(x[x > 0] * y)\n",
        "    z = jnp.mean(x[x > 0], axis=0)\n",
        "    z = jnp.mean(g(x[x > 0]))\n",
        "    z = jnp.mean(x[x > 0]) + jnp.mean(x[x < 0])\n",
        "    z = x[x > 0]\n    x = z\n",
        "    z = x[x > 0]\n    x = x.at[x > 1].add(z)\n",
        "    z = x[x > 0]\n    x = x.at[x > 0].add(z)\n    y = z\n",
        "    z = x[x > 0]\n    y = 1\n    x = x.at[x > 0].add(z)\n",
        "    x = x.at[x > 0].set(x[x > 0] / y)\n",
        "    x = x.at[x > 0].set(steal(x[x > 0]))\n",
    ],
)
def test_a_mask_of_which_not_all_is_clear_stays(body: str) -> None:
    assert masked(f"    k = jnp.pi\n{body}", 3) is None


@pytest.mark.parametrize("text", ["", "x = x[x > 0]", "def f(x):\n    z = eval(x[x > 0].sum())", "class A:\n    x = 1"])
def test_a_strangers_text_is_no_mask(text: str) -> None:
    for line in (1, 2):
        block: Any = block_of(text, line)
        assert block is None or with_where(block, line) is None
