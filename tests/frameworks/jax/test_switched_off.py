"""`jax_disable_jit`, left on: the switch is the answer, and only where it was on for as long as anything compiled."""

from __future__ import annotations

from pathlib import Path

import program
import pytest

import coldstep

RUNS = """
import jax, jax.numpy as jnp
{before}
step = jax.jit(lambda w, x: (w * x + 1).sum() / 2)
w, xs = jnp.ones(3), [jnp.ones(3) * n for n in range(5)]
with coldstep.trace("run.pftrace"):
    for x in xs:
        step(w, x)
    for n in range(2, 9):
        jnp.ones((n,)) * n
    {after}
"""
_ON = 'jax.config.update("jax_disable_jit", True)'


@pytest.mark.jax
@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        (f"print('jax_disable_jit', True)\n{_ON}", "pass", 4),
        ("", f"{_ON}; print(step(w, jnp.ones(3)))", None),
        (f"{_ON}\n{_ON.replace('True', 'False')}", "pass", None),
    ],
)
def test_the_switch_is_the_answer_where_it_was_always_on(
    before: str, after: str, line: int | None, tmp_path: Path
) -> None:
    program.run("import coldstep" + RUNS.format(before=before, after=after), tmp_path, stack="jax")
    trace = coldstep.load(tmp_path / "run.pftrace")
    rows = [row for row in trace.findings if row.text.startswith("jax_disable_jit is on")]
    assert [row.location.line for row in rows if row.location is not None] == ([line] if line else [])
