"""torch_xla's persistent cache: what a second process has of it, and what the key of a graph is made of."""

from __future__ import annotations

import pytest
from cached_runs import CachedRuns, assert_named

from coldstep.analysis.caches.reuse import Program, compared, foretold

pytestmark = pytest.mark.torch_xla

PROGRAM = """
import contextlib, os, shutil, sys
case = sys.argv[1]
flags = {"flags": " --xla_cpu_enable_fast_math=true", "dumped": " --xla_dump_to=dumped"}
os.environ["XLA_FLAGS"] += flags.get(case, "")
os.environ |= {"debug": {"XLA_HLO_DEBUG": "1"}, "ir_debug": {"XLA_IR_DEBUG": "1"}}.get(case, {})
import torch
import torch_xla
import torch_xla.backends
import torch_xla.runtime
import coldstep

if case == "copied":
    shutil.copytree("cache", "copied")
x = torch.ones({"batch": 7, "read_only_batch": 6}.get(case, 8), 4)
if case == "device_first":
    x = x.to(torch_xla.device())
if case in ("too_late", "refused"):
    print(torch.ones(3).to(torch_xla.device()) * 5)
if case == "too_late":
    os.environ["XLA_PERSISTENT_CACHE_PATH"] = "cache"
elif case != "off":
    with contextlib.suppress(*[AssertionError] * (case == "refused")):
        torch_xla.runtime.initialize_cache("copied" if case == "copied" else "cache", case.startswith("read_only"))
if case == "precision":
    torch_xla.backends.set_mat_mul_precision("highest")
x = x.to(torch_xla.device())
torch_xla.sync()
with coldstep.step():
    y = (x.T @ x * (3.0 if case == "scalar" else 2.0)).sum()
    torch_xla.sync()
    coldstep.wait(y)
"""


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> CachedRuns:
    """What a process compiled that ran the program for a case, after the first one's."""
    return CachedRuns("torch_xla", PROGRAM, tmp_path_factory.mktemp("lazy"))


def like(traced: CachedRuns, case: str) -> Program:
    """How the step's graph compares with that of the first process."""
    return [row for row in compared(traced("first"), traced(case)).programs if row.later is not None][-1]


@pytest.mark.parametrize("case", ["again", "scalar", "dumped", "copied", "device_first", "read_only"])
def test_what_is_found_and_cannot_be_loaded_is_told_from_what_is_missed(traced: CachedRuns, case: str) -> None:
    row = like(traced, case)
    assert (row.layer, row.verdict, row.components) == ("torch_xla.persistent", "missed", [])
    assert "an entry was found" in row.why_text


@pytest.mark.parametrize(
    ("case", "differs"),
    [
        ("batch", {"x": ("f32[8,4]", "f32[7,4]")}),
        ("read_only_batch", {"x": ("f32[8,4]", "f32[6,4]")}),
        ("flags", {"XLA_FLAGS": ("", "--xla_cpu_enable_fast_math=true")}),
        ("debug", {"XLA_HLO_DEBUG": ("", "1")}),
        ("ir_debug", {"XLA_IR_DEBUG": ("", "1")}),
    ],
)
def test_a_miss_names_what_differs(traced: CachedRuns, case: str, differs: dict[str, tuple[str, str]]) -> None:
    row = like(traced, case)
    assert row.verdict == "missed"
    assert_named(row, differs)


def test_a_graph_has_a_name_with_and_without_a_cache(traced: CachedRuns) -> None:
    names = {case: traced(case).compiles[-1].program for case in ("first", "again", "off", "flags", "batch")}
    assert names["first"] is not None
    assert names["first"] == names["again"] == names["off"] == names["flags"] != names["batch"]
    (row,) = traced("off").compiles[-1].caches
    assert (row.state, row.why, bool(row.key)) == ("off", "disabled", True)


def test_the_precision_of_products_is_in_no_key_and_named(traced: CachedRuns) -> None:
    row = like(traced, "precision")
    assert row.verdict == "missed"
    assert_named(row, {"mat_mul_precision": ("default", "highest")})
    assert "not in this key" in row.why_text
    first, later = (traced(case).compiles[-1] for case in ("first", "precision"))
    assert (first.caches[0].key == later.caches[0].key, first.program == later.program) == (True, False)


@pytest.mark.parametrize(
    ("case", "verdict", "why", "words"),
    [
        ("first", "missed", None, "cannot load it"),
        ("again", "missed", None, "an entry was found"),
        ("read_only_batch", "not_written", "read_only", "readonly=True"),
        ("off", "off", "disabled", "initialize_cache was not called"),
        ("refused", "off", "disabled", "before the first graph was compiled"),
        ("too_late", "off", "late", "XLA_PERSISTENT_CACHE_PATH was set when"),
    ],
)
def test_what_is_paid_again_says_why(traced: CachedRuns, case: str, verdict: str, why: str | None, words: str) -> None:
    found = foretold(traced(case))
    assert {(row.verdict, row.why) for row in found.programs} == {(verdict, why)}
    assert all(words in row.why_text for row in found.programs)
    assert found.second_run.saved_ns == 0
