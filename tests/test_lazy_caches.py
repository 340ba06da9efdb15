"""torch_xla's persistent cache: what a second process has of it, and what the key of a graph is made of."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from scenarios import warm

import coldstep
from coldstep.analysis.reuse import Program, compared, foretold
from coldstep.model import Trace

pytestmark = pytest.mark.torch_xla

PROGRAM = """
import os, shutil, sys
case = sys.argv[1]
flags = {"flags": " --xla_cpu_enable_fast_math=true", "dumped": " --xla_dump_to=dumped"}
os.environ["XLA_FLAGS"] += flags.get(case, "")
os.environ |= {"debug": {"XLA_HLO_DEBUG": "1"}, "ir_debug": {"XLA_IR_DEBUG": "1"}}.get(case, {})
import torch
import torch_xla
import torch_xla.runtime
import coldstep

if case == "copied":
    shutil.copytree("cache", "copied")
if case != "off":
    torch_xla.runtime.initialize_cache("copied" if case == "copied" else "cache", readonly=False)
x = torch.ones(7 if case == "batch" else 8, 4).to(torch_xla.device())
torch_xla.sync()
with coldstep.step():
    y = (x * (3.0 if case == "scalar" else 2.0)).sum()
    torch_xla.sync()
    coldstep.wait(y)
"""


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Trace]:
    """What a process compiled that ran the program for a case, after the first one's."""
    folder, known = tmp_path_factory.mktemp("lazy"), dict[str, Trace]()
    (folder / "program.py").write_text(PROGRAM)

    def run(case: str) -> Trace:
        if case not in known:
            command = ["coldstep", "run", "-o", f"{case}.pftrace", "program.py", case]
            code, said = warm.server("torch_xla", sys.executable).run(command, folder)
            assert code == 0, said
            known[case] = coldstep.load(folder / f"{case}.pftrace")
        return known[case]

    run("first")
    return run


def like(traced: Callable[[str], Trace], case: str) -> Program:
    """How the step's graph compares with that of the first process."""
    return [row for row in compared(traced("first"), traced(case)).programs if row.later is not None][-1]


@pytest.mark.parametrize("case", ["again", "scalar", "dumped", "copied"])
def test_what_is_found_and_cannot_be_loaded_is_told_from_what_is_missed(
    traced: Callable[[str], Trace], case: str
) -> None:
    row = like(traced, case)
    assert (row.layer, row.verdict, row.components) == ("torch_xla.persistent", "missed", [])
    assert "an entry was found" in row.why_text


@pytest.mark.parametrize(
    ("case", "differs"),
    [
        ("batch", {"x": ("f32[8,4]", "f32[7,4]")}),
        ("flags", {"XLA_FLAGS": ("", "--xla_cpu_enable_fast_math=true")}),
        ("debug", {"XLA_HLO_DEBUG": ("", "1")}),
        ("ir_debug", {"XLA_IR_DEBUG": ("", "1")}),
    ],
)
def test_a_miss_names_what_differs(
    traced: Callable[[str], Trace], case: str, differs: dict[str, tuple[str, str]]
) -> None:
    row = like(traced, case)
    assert row.verdict == "missed"
    assert {each.name for each in row.components} == set(differs)
    for each in row.components:
        before, after = differs[each.name]
        assert before in (each.before or "")
        assert after in (each.after or "")


def test_a_graph_has_a_name_with_and_without_a_cache(traced: Callable[[str], Trace]) -> None:
    names = {case: traced(case).compiles[-1].program for case in ("first", "again", "off", "flags", "batch")}
    assert names["first"] is not None
    assert names["first"] == names["again"] == names["off"] == names["flags"] != names["batch"]
    (row,) = traced("off").compiles[-1].caches
    assert (row.state, row.why, bool(row.key)) == ("off", "disabled", True)


def test_what_cannot_be_loaded_is_paid_again(traced: Callable[[str], Trace]) -> None:
    found = foretold(traced("again"))
    assert {row.verdict for row in found.programs} == {"not_written"}
    assert found.second_run.saved_ns == 0
