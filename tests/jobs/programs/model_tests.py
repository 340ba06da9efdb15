"""Tests that compile, for pytest-xdist to divide."""

import pytest
from counting import jax_counted

jax, count = jax_counted()


@pytest.mark.parametrize("n", [3, 4])
def test_doubles(n):
    """Each compiles anew where the worker has had the other."""
    assert float(jax.jit(lambda x: x * 2)(jax.numpy.ones(n)).sum()) == 2 * n
    count()
