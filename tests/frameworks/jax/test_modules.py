"""A function that runs a module of Flax's or Equinox' is jitted where it may be, and a module is made at once."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from scenarios import warm

import coldstep
from coldstep.model import Finding

pytestmark = pytest.mark.jax

PROGRAM = """\
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

generator = np.random.default_rng(0)


class Layer(nnx.Module):
    def __init__(self, rngs, width=4):
        self.weight = nnx.Param(jax.random.normal(rngs.params(), (width, width)) / jnp.sqrt(width) * 0.5 + 0.1)

    def __call__(self, x):
        return jnp.tanh(x @ self.weight[...]) + jnp.sin(x) * jnp.cos(x)


class Bounded(Layer):
    def __call__(self, x):
        return super().__call__(x) if jnp.isfinite(x).all() else x


def given(model, x):
    return jnp.mean(model(x)) + jnp.exp(x[0, 0])


def kept(x):
    return jnp.mean(layer(x)) + jnp.exp(x[0, 0])


def bounded(model, x):
    return jnp.mean(model(x)) + jnp.exp(x[0, 0])


def noisy(x):
    return jnp.exp(x + generator.normal(size=(2, 4))) - jnp.tanh(x) * jnp.sin(x) + jnp.cos(x)


def made(rngs):
    return Layer(rngs)


x = jax.device_put(np.full((2, 4), 0.5, np.float32))
"""


def eager_compiles(calls: str, folder: Path) -> list[Finding]:
    program = folder / "program.py"
    program.write_text(f"{PROGRAM}{calls}\n")
    words = ["coldstep", "run", "--no-live", "--device", "off", "-o", "t.pftrace", str(program)]
    done, printed = warm.server("jax_modules", sys.executable).run(words, folder)
    assert done == 0, printed
    return [row for row in coldstep.load(folder / "t.pftrace").findings if row.kind == "eager_compiles"]


@pytest.mark.parametrize(
    ("calls", "code"),
    [
        (
            "layer = nnx.jit(made)(nnx.Rngs(0)); [given(layer, x) for _ in range(3)]",
            "from flax.nnx import jit\n@jit\ndef given(model, x):",
        ),
        ("layer = nnx.jit(made)(nnx.Rngs(0)); [kept(x) for _ in range(3)]", ""),
        ("layer = nnx.jit(Bounded)(nnx.Rngs(0)); [bounded(layer, x) for _ in range(3)]", ""),
        ("[noisy(x) for _ in range(3)]", ""),
        (
            "rngs = nnx.Rngs(0)\nlayer = Layer(rngs, 4)",
            "from flax.nnx import jit\nlayer = jit(lambda rngs: Layer(rngs, 4))(rngs)",
        ),
        ("layer = made(nnx.Rngs(0))", "from flax.nnx import jit\nreturn jit(lambda rngs: Layer(rngs))(rngs)"),
        ("layers = [Layer(nnx.Rngs(n)) for n in range(3)]", ""),
    ],
)
def test_a_module_s_jit_is_given_where_it_may_be(calls: str, code: str, tmp_path: Path) -> None:
    rows = eager_compiles(calls, tmp_path)
    assert rows
    written = [remedy.code.replace("\n\n", "\n") for row in rows for remedy in row.remedies if remedy.code]
    assert written == ([code] if code else [])


def test_what_failed_to_compile_is_not_to_be_jitted(tmp_path: Path) -> None:
    made = "def spread(x):\n    y = jnp.sin(x) * 2 + 1\n    return y.sum() + jnp.arange(jnp.abs(y).sum() + 1).sum()"
    tried = "try:\n    jax.jit(spread)(x)\nexcept jax.errors.ConcretizationTypeError:\n    spread(x)"
    rows = eager_compiles(f"{made}\n{tried}", tmp_path)
    assert rows
    assert [remedy.code for row in rows for remedy in row.remedies if "spread" in remedy.code] == []
    [row] = eager_compiles(f"{made}\nspread(x)", tmp_path)
    assert [remedy.code.splitlines()[-1] for remedy in row.remedies] == ["def spread(x):"]


def test_a_loop_without_steps_has_the_line_that_calls_what_to_jit(tmp_path: Path) -> None:
    [row] = eager_compiles("for _ in range(3):\n    for _ in range(2):\n        y = noisy(x)", tmp_path)
    last = len(PROGRAM.splitlines())
    assert row.text.startswith(f"the loop in line {last + 1} runs operations one by one")
    assert row.location is not None
    assert row.location.line == last + 3
    assert row.advice.startswith("Jit the function that this line calls once, above the loop")


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("driver.run(x)", "This line drops what the call returns, so jax.jit of the call would lose"),
        ("print(noisy(x))", "Jit the function that this line calls once, above the loop"),
        ("kept.append(noisy(x))", "Jit the function that this line calls once, above the loop"),
        ("noisy(x).block_until_ready()", "Jit the function that this line calls once, above the loop"),
    ],
)
def test_what_a_loop_calls_for_its_effect_is_not_to_be_jitted(line: str, advice: str, tmp_path: Path) -> None:
    made = "class Driver:\n    def run(self, x):\n        self.last = noisy(x)\ndriver, kept = Driver(), []"
    [row] = eager_compiles(f"{made}\nfor _ in range(3):\n    {line}", tmp_path)
    assert row.advice.startswith(advice)


def test_a_script_s_own_loop_over_an_optimizer_has_the_line_of_its_update(tmp_path: Path) -> None:
    pytest.importorskip("optax")
    made = "import optax\ntx = optax.adam(0.1)\nstate = tx.init(x)"
    rows = eager_compiles(f"{made}\nfor _ in range(4):\n    updates, state = tx.update(x, state)", tmp_path)
    last = len(PROGRAM.splitlines())
    [row] = [each for each in rows if each.text.startswith(f"the loop in line {last + 4} runs operations one by one")]
    assert row.location is not None
    assert row.location.line == last + 5
    assert row.advice.startswith("Jit the function that this line calls once, above the loop")
