"""Each private name of a framework's, taken away alone: the program's output is the same, what is not seen is said, and
no cause is wrong.

Here each function, class and module of JAX's; `make shows` takes away those of all stacks, and each name that is read
there as well.
"""

from __future__ import annotations

import sys
from pathlib import Path

import private_names
import pytest
from private_names import KnockedOut


@pytest.mark.jax
def test_without_a_name_less_is_seen_and_nothing_is_wrong(tmp_path: Path) -> None:
    found = private_names.knock_out(sys.executable, "jax", tmp_path, few=True)
    assert len(found.names) >= 25
    assert found.wrong == {}


def test_the_page_counts_what_is_held_and_names_what_is_not() -> None:
    held = KnockedOut("jax", "0.10.2", ["jax._src.pjit", "jax._src.pjit x"], {})
    other = KnockedOut("torch", "2.13.0", ["torch._dynamo", "torch._dynamo x"], {"torch._dynamo x": ["prints 1\n2"]})
    lines = private_names.page([held, other], "2026-11-22", "4c0935f").splitlines()
    assert "| JAX | 0.10.2 | 2 | 2 of 2 | 2026-11-22 | 4c0935f |" in lines
    assert "| PyTorch | 2.13.0 | 2 | 1 of 2 | 2026-11-22 | 4c0935f |" in lines
    assert lines[-3:] == ["## PyTorch: not held", "", "- `torch._dynamo x`: 2"]
