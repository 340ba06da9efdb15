"""Releases beside the newest: the page that tells how much of each is right, and JAX's oldest itself."""

from __future__ import annotations

from pathlib import Path

import pytest
import scenarios
from scenarios import versions
from scenarios.elsewhere import HELD, NOT_EXPRESSIBLE, SHORT, WRONG, Result


def test_the_page_counts_what_is_right_of_what_a_release_can_express() -> None:
    results = [
        Result("shape", False, HELD, missing=["jax: Python dispatches"]),
        Result("dtype", False, SHORT, "expected dtype; reported unknown", missing=["jax: Python dispatches"]),
        Result("mesh", False, NOT_EXPRESSIBLE, "jax has no set_mesh"),
        Result("nothing", True, HELD, missing=["jax: Python dispatches", "jax: the backend"]),
        Result("nothing_else", True, WRONG, "expected nothing; reported shape"),
    ]
    page = versions.page([versions.Run("jax", "0.4.35", "3.11", "2026-11-22", "4c0935f", results)])
    assert "| 0.4.35 | 3.11 | 1 of 2 (50%) | 1 | 1 | 1 | 1 of 2 | 2026-11-22 | 4c0935f |" in page.splitlines()
    assert "- WRONG: `nothing_else`: expected nothing; reported shape" in page.splitlines()
    assert "- not observed: jax: Python dispatches" in page.splitlines()
    assert "the backend" not in page  # was seen in most programs


def test_a_release_is_named_as_pip_names_it() -> None:
    assert versions.Release.parse("jax==0.10.2@3.13") == versions.Release("jax", "0.10.2", "3.13")
    assert versions.Release.parse("torch_xla==2.8.1").requirements() == ["torch_xla==2.8.1", "numpy", "torch==2.8.*"]
    with pytest.raises(ValueError, match=r"not a release as jax==0\.9\.2"):
        versions.Release.parse("numpy==2.0.0")


def test_a_program_says_what_older_releases_do_otherwise() -> None:
    scenario = scenarios.Scenario(Path("x.py"), says={"before": ["jax 0.5: XLA compiles it twice"]})
    assert scenario.before({"jax": "0.4.38"}) == "XLA compiles it twice"
    assert scenario.before({"jax": "0.10.2"}) == ""
    assert scenario.before({"torch": "0.4.38"}) == ""
