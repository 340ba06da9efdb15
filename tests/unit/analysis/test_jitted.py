"""A function of single operations is jitted only where its statements do nothing but compute."""

from __future__ import annotations

import pytest
from rewritten import block_of, replaced

from coldstep.analysis.remedies.jitted import jitted, made_anew

SCAN = """\
def step(params, xs):
    def turn(carry, x):
        return carry + x, None

    total, _ = jax.lax.scan(turn, params, xs)
    return total
"""


def given_to_jit(text: str, by: str = "jax.jit") -> str | None:
    block = block_of(text, 2)
    return replaced(text, jitted(block, by)) if block is not None else None


def test_a_function_that_computes_is_jitted() -> None:
    assert given_to_jit(SCAN) == f"@jax.jit\n{SCAN}"


def test_a_dict_of_arrays_may_be_returned() -> None:
    text = "def step(x):\n    y = jax.numpy.sin(x)\n    return {'x': x, 'y': y['part']}\n"
    assert given_to_jit(text) == f"@jax.jit\n{text}"


def test_an_array_may_be_compared() -> None:
    text = "def near(x, y):\n    return jax.numpy.mean(jax.numpy.abs(x - y) < 0.1)\n"
    assert given_to_jit(text) == f"@jax.jit\n{text}"


@pytest.mark.parametrize(
    "lines",
    [
        "return x[x > 0]",
        "valid = ~jax.numpy.isnan(x)\n    return (x[valid] ** 2).mean()",
        "near, far = x > 0, x < 1\n    return x[near & far].sum()",
        "return x[jax.numpy.isfinite(x), 0]",
        "return x[:n]",
        "return jax.numpy.nonzero(x)[0]",
        "return jax.numpy.where(x)",
    ],
)
def test_a_size_that_follows_from_values_is_none_to_trace(lines: str) -> None:
    assert given_to_jit(f"def step(x, n, mask):\n    {lines}\n") is None


@pytest.mark.parametrize(
    "lines",
    [
        "return x[n]",
        "return x.at[mask].set(0)",
        "return x[:SIZE]",
        "return x[: n.shape[0]]",
        "return jax.numpy.where(x > 0, x, 0)",
        "return jax.numpy.nonzero(x, size=3)[0]",
        "return (x > 0) * x[..., None]",
    ],
)
def test_a_size_that_is_known_may_be_traced(lines: str) -> None:
    text = f"def step(x, n, mask):\n    {lines}\n"
    assert given_to_jit(text) == (f"@jax.jit\n{text}" if "jax" in lines else f"from jax import jit\n\n@jit\n{text}")


def test_jit_is_imported_where_the_function_does_not_name_jax() -> None:
    text = "def step(params):\n    update = solver.update(params)\n    return update\n"
    assert given_to_jit(text) == f"from jax import jit\n\n@jit\n{text}"


TRAIN = """\
def train(model, optimizer, x):
    (loss, _), grads = value_and_grad(model, x)
    optimizer.update(model, grads)
    return loss
"""


def test_an_optimizer_of_flax_may_change_what_it_is_given() -> None:
    assert given_to_jit(TRAIN, "flax.nnx.jit") == f"from flax.nnx import jit\n\n@jit\n{TRAIN}"
    assert given_to_jit(TRAIN) is None


def test_what_jits_is_one_of_the_known_ones() -> None:
    assert given_to_jit(SCAN, "equinox.filter_jit") == f"from equinox import filter_jit\n\n@filter_jit\n{SCAN}"
    assert given_to_jit(SCAN, "os.system") is None


@pytest.mark.parametrize(
    "statement",
    [
        "print(x)",
        "y = float(x)",
        "y = np.asarray(x)",
        "y = x if x > 0 else -x",
        "y = 0 < x < 1",
        "y = x in known",
        "losses.append(x)",
        "total[0] = x",
        "y = x.item()",
        "y = [each for each in x]",
        "y = f'{x}'",
        "global y",
        "return x, 'done'",
        "return {'x': x, 'state': ['done']}",
    ],
)
def test_a_function_that_may_do_more_is_left_alone(statement: str) -> None:
    assert given_to_jit(f"def step(x):\n    {statement}\n    return x\n") is None


@pytest.mark.parametrize("head", ["    def step(self, x):\n", "@cached\ndef step(x):\n"])
def test_a_method_and_a_decorated_function_are_left_alone(head: str) -> None:
    indent = " " * (len(head) - len(head.lstrip()) + 4)
    assert given_to_jit(f"{head}{indent}y = x\n{indent}return y\n") is None


def test_a_call_of_a_function_within_runs_statements_nobody_looked_at() -> None:
    assert given_to_jit("def step(x):\n    def show(y):\n        print(y)\n\n    show(x)\n    return x\n") is None
    assert given_to_jit("def step(x):\n    def show(y):\n        print(y)\n\n    z = show(x)\n    return z\n") is None


def test_what_a_call_is_given_anew_has_its_name() -> None:
    block = block_of(SCAN, 5)
    assert block is not None
    assert made_anew(block, 5) == "turn"
    lambdas = block_of("def f(xs):\n    y = 1\n    return jax.lax.map(lambda x: x + y, xs)\n", 3)
    assert lambdas is not None
    assert made_anew(lambdas, 3) == "a lambda"
