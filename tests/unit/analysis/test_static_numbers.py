"""A static number is taken off a decorator where the function only computes with it, and nowhere else."""

from __future__ import annotations

import pytest

from coldstep.analysis.remedies.blocks import block_around
from coldstep.analysis.remedies.static_numbers import without_static
from coldstep.analysis.remedies.tensor_numbers import type_beside
from coldstep.model import Location

NAMES = '@partial(jax.jit, static_argnames="n")'
WRITTEN = {
    f"{NAMES}\ndef f(x, n):\n    return x * n": "@jax.jit",
    f"{NAMES}\ndef f(x, n):\n    y = x.sum()\n    return jnp.exp(y / (n + 1))": "@jax.jit",
    "@functools.partial(jit, static_argnums=(1, 2))\ndef f(x, n, m):\n    return x.reshape(m) - n": (
        "@functools.partial(jit, static_argnames=('m',))"
    ),
    "@partial(jax.jit, static_argnums=1, donate_argnums=(0,))\ndef f(x, n):\n    return x + -n": (
        "@partial(jax.jit, donate_argnums=(0,))"
    ),
    f"{NAMES}\ndef f(x, n):\n    return jnp.where(x.sum() < 2 * n, x, 0)": "@jax.jit",
    f"{NAMES}\ndef f(x, n):\n    return x * jnp.sqrt(1 + n)": "@jax.jit",
    '@jax.jit(static_argnames=["n"])\ndef f(x, *, n):\n    return n * x': "@jax.jit",
}
LEFT = {
    "a loop": f"{NAMES}\ndef f(x, n):\n    for _ in range(n):\n        x = x * 2\n    return x * n",
    "a branch": f"{NAMES}\ndef f(x, n):\n    return x * n if n > 1 else x",
    "a comparison of two": f"{NAMES}\ndef f(x, n):\n    return x * (0 < n < x.sum())",
    "a comparison with a size": f"{NAMES}\ndef f(x, n):\n    return x if len(x) > n else -x",
    "a shape": f"{NAMES}\ndef f(x, n):\n    return x.reshape(x.shape[0] * n)",
    "a length": f"{NAMES}\ndef f(x, n):\n    m = len(x) * n\n    return x.reshape(m)",
    "a call": f"{NAMES}\ndef f(x, n):\n    return g(x, n)",
    "another library's root": f"{NAMES}\ndef f(x, n):\n    return x * math.sqrt(n)",
    "a root that is a shape": f"{NAMES}\ndef f(x, n):\n    return x.reshape(int(jnp.sqrt(n)))",
    "a power": f"{NAMES}\ndef f(x, n):\n    return x ** n",
    "an index": f"{NAMES}\ndef f(x, n):\n    return x[n] + x * n",
    "no use": f"{NAMES}\ndef f(x, n):\n    return x",
    "names that are not written": "@partial(jax.jit, static_argnames=NAMES)\ndef f(x, n):\n    return x * n",
    "another decorator": "@cached(static_argnames='n')\ndef f(x, n):\n    return x * n",
    "two decorators": f"@logged\n{NAMES}\ndef f(x, n):\n    return x * n",
    "another argument": f"{NAMES}\ndef f(x, m):\n    return x * m",
}


@pytest.mark.parametrize("source", WRITTEN)
def test_the_decorator_is_written_without_the_number(source: str) -> None:
    block = block_around({("f.py", 7): source}, Location("f.py", 8, "f"))
    assert block is not None
    written = without_static(block, "n")
    assert written is not None
    assert (written.code, written.location.line, written.lines) == (WRITTEN[source], 7, 1)


@pytest.mark.parametrize("case", LEFT)
def test_a_number_that_may_be_needed_stays_static(case: str) -> None:
    block = block_around({("f.py", 7): LEFT[case]}, Location("f.py", 8, "f"))
    assert block is not None
    assert without_static(block, "n") is None


AS_TENSOR = {
    "def f(x, n):\n    return x * (1.0 / (1 + n))": ({"x": "f32[3]", "n": "2"}, "f32[3]"),
    "def f(x, y, n):\n    return (x - y).sum() / n": ({"x": "f64[3]", "y": "f64[]"}, "f64[]"),
    "def f(x, labels, n):\n    return x * n + 0 * loss(labels)": ({"x": "f32[3]", "labels": "i64[3]"}, ""),
    "def f(x, labels, n):\n    z = x * n\n    return loss(z, labels)": ({"x": "f32[3]", "labels": "i64[3]"}, "f32[3]"),
    "def f(x, n):\n    return x + n * x - tf.sqrt(n) * x": ({"x": "f32[3]"}, "f32[3]"),
    "def f(x, n):\n    return x * tf.math.exp(-n)": ({"x": "f32[3]"}, "f32[3]"),
    "def f(x, n):\n    h = tf.cast(x, 'float32') * tf.sqrt(n)\n    return loss(h) * (x * n)": ({"x": "f64[3]"}, ""),
    "def f(x, n):\n    return x * math.sqrt(n)": ({"x": "f32[3]"}, ""),
    "def f(x, n):\n    return tf.sqrt(n)": ({"x": "f32[3]"}, ""),
    "def f(x, n):\n    return tf.sqrt(x, n)": ({"x": "f32[3]"}, ""),
    "def f(x, n):\n    return x + n": ({"x": "i32[3]"}, ""),
    "def f(ids, n):\n    return tf.gather(table, ids) / n": ({"ids": "i32[3]", "n": "0.5"}, ""),
    "def f(ids, n):\n    e = embed(ids)\n    return e * n": ({"ids": "i64[3]"}, ""),
    "def f(x, size, n):\n    y = size * n\n    return tf.zeros(y) + x": ({"x": "f32[3]", "size": "2", "n": "3"}, ""),
    "def f(x, n):\n    return x * n if n > 1 else x": ({"x": "f32[3]"}, ""),
    "def f(x, n):\n    return model(x, training=n)": ({"x": "f32[3]"}, ""),
    "def f(x, n):\n    return x[n] * n": ({"x": "f32[3]"}, ""),
}


@pytest.mark.parametrize("source", AS_TENSOR)
def test_a_number_has_the_dtype_of_what_it_is_computed_with_as_a_tensor(source: str) -> None:
    block = block_around({("f.py", 1): source}, Location("f.py", 1, "f"))
    assert block is not None
    types, expected = AS_TENSOR[source]
    assert type_beside(block, "n", types) == expected
