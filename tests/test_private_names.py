"""Each private name of a framework's, taken away alone: the program's output is the same, what is not seen is said, and
no cause is wrong.

Here each function, class and module; each name that is read there as well with COLDSTEP_ALL_NAMES=1 (`make shows`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
TOLD = ("recompiles", "breaks", "compiles", "settling")


@pytest.mark.parametrize(
    ("stack", "least"),
    [
        pytest.param("jax", 25, marks=pytest.mark.jax),
        pytest.param("torch", 30, marks=pytest.mark.torch),
        pytest.param("torch_xla", 12, marks=pytest.mark.torch_xla),
    ],
)
def test_without_a_name_less_is_seen_and_nothing_is_wrong(tmp_path: Path, stack: str, least: int) -> None:
    few = [] if os.environ.get("COLDSTEP_ALL_NAMES") else ["few"]
    settings = {"TORCHINDUCTOR_COMPILE_THREADS": "1", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, str(HERE / "knocked_out.py"), stack, str(tmp_path), *few],
        env={"PJRT_DEVICE": "CPU", **os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
        timeout=550,
    )
    assert done.returncode == 0, done.stderr
    versions, *rows = map(json.loads, done.stdout.splitlines())
    assert versions["untrue"] == []
    bare = {row["program"]: row for row in rows if not row["label"]}
    whole = {row["program"]: row for row in rows if row["label"] == "all names"}
    knocked_out = [row for row in rows if row["label"] not in ("", "all names")]
    assert len(knocked_out) >= least
    assert [row["error"] for row in rows if "error" in row] == []
    for name, row in whole.items():
        assert (row["missing"], row["failed"], row["output"]) == ([], [], bare[name]["output"])
    wrong = {row["label"]: found for row in knocked_out if (found := _wrong(row, whole[row["program"]]))}
    assert wrong == {}


def _wrong(row: dict[str, Any], whole: dict[str, Any]) -> list[str]:
    """What must not be, without a name: another output, a cause that is not so, or silence about what is not seen."""
    found = [f"{name} failed: {row['notes'][-1:]}" for name in row["failed"]]
    if row["output"] != whole["output"]:
        found.append(f"prints {row['output']}")
    found += [f"does not say {words!r}" for words in row["expected"] if words not in row["missing"]]
    found += [f"says {said}" for said in row["recompiles"] if said[1] != "unknown" and said not in whole["recompiles"]]
    if not row["missing"] and (other := [key for key in TOLD if row[key] != whole[key]]):
        found.append(f"tells other {other}, without a word: {[row[key] for key in other]}")
    return found
