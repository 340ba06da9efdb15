"""`coldstep compare`: one model in several stacks, ranked, with the reason under each number."""

from __future__ import annotations

import json
import re
from pathlib import Path

import browser as tools
import pytest
from axe_playwright_python.sync_playwright import Axe
from click.testing import CliRunner, Result
from playwright.sync_api import Browser, expect
from sample_trace import MS, sample

import coldstep
from coldstep.analysis.across.frameworks import StackRow, Stacks, compare
from coldstep.model import Memory, SettlingCause, Trace
from coldstep_viewers.commands import cli
from coldstep_viewers.commands.compare.compare import compared_programs
from coldstep_viewers.pages.frameworks_text import figures, text
from coldstep_viewers.pages.programs import side_by_side

HOSTILE = "<script>window.hacked=1</script>\"'\\</script><!--\u202e{{7*7}}"


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(cli.main, ["compare", *map(str, words)], catch_exceptions=False)


def of_stack(stack: str, name: str = "gpt2") -> Trace:
    """The sample's steps of one stack under a name of their own, and only what compiled for them."""
    trace = sample()
    for row in trace.intervals:
        row.compiles = [each.id for each in trace.compiles if each.segments[0].interval == row.index]
    for row in trace.compiles:
        trace.details[row.id].identity = row.key
    for row in (*trace.intervals, *trace.cost, *trace.settling):
        if row.name == stack:
            row.name = name
        elif row.name is not None:
            row.name = f"other of {stack}"
    return trace


def beside_torch(trace: Trace) -> StackRow:
    """The row of a trace of JAX's, compared with torch.compile's."""
    rows = compare([("jax.pftrace", trace), ("torch.pftrace", of_stack("torch"))]).rows
    return next(row for row in rows if row.trace == "jax.pftrace")


@pytest.fixture
def both() -> Stacks:
    return compare([("jax.pftrace", of_stack("jax")), ("torch.pftrace", of_stack("torch"))])


def test_the_fastest_steady_step_comes_first_and_each_number_has_its_reason(both: Stacks) -> None:
    torch, jax = both.rows
    assert (both.name, torch.stack, jax.stack) == ("gpt2", "dynamo", "jax")
    assert (jax.first_ns, jax.second_ns, jax.steady_ns) == (3_248 * MS, 11 * MS, 13_500_000)
    assert (jax.settled_at_step, jax.compiles, jax.graphs_per_step) == (1, 2, 1)
    assert jax.reasons["first"] == "82 % XLA compilation, 10 % JAX tracing, 4 % JAX lowering"
    assert jax.reasons["second"] == "compiled nothing"
    assert "median of 6 ± 3.2 ms, from step 1 on; 93 % execution" in jax.reasons["steady"]
    assert jax.reasons["steady"].endswith("; 1.4 times torch.compile")
    assert "times" not in torch.reasons["steady"]
    assert torch.reasons["steady"].endswith("kernels run inside the call: their time is unattributed")
    assert jax.reasons["compiles"] == "train_step 2 times"
    assert torch.reasons["graphs"] == "GPT.forward"
    for row in both.rows:
        assert set(row.reasons) >= {"first", "second", "steady", "compiles", "graphs", "memory", "operations"}


def test_what_makes_a_steady_step_longer_is_named_where_it_is_no_execution() -> None:
    trace = of_stack("jax")
    for row in trace.intervals:
        if row.name == "gpt2" and row.label == "steady":
            row.phases = {"torch_xla.trace": row.wall_ns - MS, "execute": MS}
            row.unattributed_ns = 0
    assert ", of which 12.5 ms torch_xla tracing" in beside_torch(trace).reasons["steady"]


def test_where_a_steady_step_goes_is_not_what_one_of_them_was_kept_waiting_by() -> None:
    trace = of_stack("jax")
    kept = next(row for row in trace.intervals if row.name == "gpt2" and row.label == "steady")
    kept.phases["coldstep"] = 500 * MS
    kept.wall_ns += 500 * MS
    said = beside_torch(trace).reasons["steady"]
    assert re.search(r"; 9\d % execution", said)
    assert "coldstep" not in said


def test_the_phases_are_those_of_the_steps_that_were_not_steady(both: Stacks) -> None:
    trace = of_stack("jax")
    walls = [row.wall_ns for row in trace.intervals if row.name == "gpt2" and row.label != "steady"]
    [jax] = [row for row in both.rows if row.stack == "jax"]
    assert sum(jax.phases.values()) == sum(walls)
    assert jax.phases["xla.compile"] == (2661 + 2600) * MS


def test_which_is_ahead_changes_where_the_sums_cross(both: Stacks) -> None:
    first, later = both.ahead
    assert (first.steps, first.trace, later.trace) == (1, "jax.pftrace", "torch.pftrace")
    jax, torch = ({row.stack: row for row in both.rows}[stack] for stack in ("jax", "dynamo"))

    def spent(row: StackRow, steps: int) -> int:
        return (row.first_ns or 0) + (row.second_ns or 0) + (steps - 2) * (row.steady_ns or 0)

    assert spent(jax, later.steps - 1) <= spent(torch, later.steps - 1)
    assert spent(torch, later.steps) < spent(jax, later.steps)


def test_steps_that_settle_late_count_as_long_as_they_took() -> None:
    trace = of_stack("jax")
    steps = [row for row in trace.intervals if row.name == "gpt2"]
    for row in steps[1:4]:
        row.label, row.wall_ns = "compiled", 1_000 * MS
    torch = of_stack("torch")
    _, *later = compare([("jax.pftrace", trace), ("torch.pftrace", torch)]).ahead
    rows = {row.stack: row for row in compare([("jax.pftrace", trace), ("torch.pftrace", torch)]).rows}
    [lead] = [each for each in later if each.trace == "torch.pftrace"]

    def spent(row: StackRow, steps: int) -> int:
        return sum(row.walls_ns[:steps]) + (row.steady_ns or 0) * (steps - len(row.walls_ns))

    assert rows["jax"].walls_ns == [row.wall_ns for row in steps[:4]]
    assert spent(rows["jax"], lead.steps - 1) <= spent(rows["dynamo"], lead.steps - 1)
    assert spent(rows["dynamo"], lead.steps) < spent(rows["jax"], lead.steps)


def test_no_lead_is_told_of_less_than_steady_steps_vary_by_or_of_one_trace() -> None:
    trace = of_stack("jax")
    next(row for row in trace.cost if row.name == "gpt2").steady_spread_ns = 5 * MS  # 3.8 ms lie between the two
    [only] = compare([("jax.pftrace", trace), ("torch.pftrace", of_stack("torch"))]).ahead
    assert (only.steps, only.trace) == (1, "jax.pftrace")
    assert compare([("jax.pftrace", trace)]).ahead == []


def test_what_was_compiled_before_the_steps_is_what_they_run() -> None:
    trace = of_stack("jax")
    for row in trace.intervals:
        if row.name == "gpt2":
            row.compiles = []
    row = beside_torch(trace)
    assert (row.stack, row.compiles, row.graphs_per_step) == ("jax", 0, 1)
    assert row.reasons["compiles"] == "compiled before the steps: train_step 2 times"
    assert row.reasons["graphs"] == "train_step"
    assert "inside the call" not in row.reasons["steady"]


def test_a_long_second_step_that_compiled_nothing_says_what_was_longer() -> None:
    trace = of_stack("jax")
    second = [row for row in trace.intervals if row.name == "gpt2"][1]
    second.phases["gc"] = 30 * MS
    second.wall_ns += 30 * MS
    assert re.fullmatch(
        r"compiled nothing; 3\.\d times a steady step, longer by 30\.0 ms garbage collection",
        beside_torch(trace).reasons["second"],
    )


def test_a_second_compile_is_told_with_what_caused_it() -> None:
    trace = of_stack("jax")
    [settling] = [row for row in trace.settling if row.name == "gpt2"]
    settling.causes = [SettlingCause(1, "c1", "optimizer_state", "it compiled again", ["new inputs: 4 tensors"], "")]
    row = beside_torch(trace)
    assert row.reasons["second"] == "it compiled again; new inputs: 4 tensors"


def test_operations_are_compared_only_where_they_are_of_one_form() -> None:
    trace = of_stack("jax")
    text = "module {\n  %0 = stablehlo.constant dense<1> : tensor<f32>\n  %1 = stablehlo.add %0, %0 : tensor<f32>\n}"
    latest = next(row for row in trace.compiles if row.id == "c1")
    latest.ir = {"jaxpr": {"operations": 31}}
    row = beside_torch(trace)
    assert (row.operations, row.reasons["operations"].partition(":")[0]) == (31, "of jaxpr")
    trace.details["c1"].programs["stablehlo"] = text
    row = beside_torch(trace)
    assert (row.operations, row.reasons["operations"].partition(",")[0]) == (1, "of StableHLO")


PRODUCT = """module {
  func.func @main(%arg0: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %0 = stablehlo.dot_general %arg0, %arg0, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %0 : tensor<4x4xf32>
  }
}"""  # noqa: E501
LOST = """module {
  func.func @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
    %0 = call @main(%arg0) : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}"""
UPDATE = """module {
  func.func @main(%arg0: tensor<8xf32>) -> () {
    %0 = stablehlo.add %arg0, %arg0 : tensor<8xf32>
    return
  }
}"""


def keeping(program: str, stack: str) -> Trace:
    """A trace of JAX's with that program, as another stack's; only its first compile keeps one."""
    trace = of_stack("jax")
    for row in trace.compiles:
        row.stack = stack if row.id == "c1" else row.stack
        trace.details[row.id].programs.clear()
    trace.details["c1"].programs["stablehlo"] = program
    return trace


@pytest.mark.jax
def test_a_program_that_cannot_be_laid_beside_another_does_not_keep_the_rest_from_it() -> None:
    programs = {"0": "no module", "a": PRODUCT, "b": LOST, "c": UPDATE, "d": PRODUCT}
    stacks = {"0": "jax", "a": "jax", "b": "tensorflow", "c": "torch_xla", "d": "torch_xla"}
    traces = {name: keeping(program, stacks[name]) for name, program in programs.items()}
    found = compare(list(traces.items()))
    assert [row.trace for row in found.rows] == ["0", "a", "b", "c", "d"]
    pairs, without = compared_programs(found, traces)
    [pair] = pairs
    assert pair.structure is not None
    assert (pair.structure.aligned, pair.structure.anchors) == (1, (1, 1))
    assert (pair.names[0].partition(" ")[2], pair.names[1].partition(" ")[2]) == ("(a)", "(d)")
    [unread, *rest] = [re.sub(r"^.*(\(\w\) is)", r"\1", words) for words in without]
    assert unread.startswith("(0) is not compared: no StableHLO module: error: ")
    assert rest == [
        "(b) is not compared: a StableHLO module whose dataflow cannot be followed.",
        f"(c) is not compared: no product or the like in what it kept has its like in {pair.names[0]}.",
    ]


@pytest.mark.jax
def test_traces_of_one_stack_and_one_name_are_told_apart() -> None:
    traces = {f"{folder}/run.pftrace": keeping(PRODUCT, "jax") for folder in ("before", "after")}
    found = compare(list(traces.items()))
    [pair], without = compared_programs(found, traces)
    assert without == []
    assert [name.rpartition("(")[2] for name in pair.names] == ["before/run.pftrace)", "after/run.pftrace)"]
    assert all(name in next(side_by_side(pair)) for name in pair.names)


def test_memory_is_told_against_what_stood_before() -> None:
    trace = of_stack("jax")
    for row in trace.intervals:
        row.rss_bytes = (1 if row.kind == "before" else 3) << 30
    trace.compiles[0].memory = Memory(2 << 20, 2 << 20, 2 << 20, 2 << 20)  # donated: one is in place of the other
    row = beside_torch(trace)
    assert row.memory["peak_rss_bytes"] == 3 << 30
    assert "2.0 GiB more than before the first" in row.reasons["memory"]
    assert "train_step itself needs 4.0 MiB" in row.reasons["memory"]


def test_what_a_device_holds_is_the_figure_and_said_so() -> None:
    trace = of_stack("jax")
    for row in trace.intervals:
        row.rss_bytes, row.device_bytes = 3 << 30, 60 << 30
    row = beside_torch(trace)
    assert figures(row)["memory"] == "60.0 GiB"
    assert row.reasons["memory"].startswith("on the device; 3.0 GiB resident, in step ")


def test_out_of_memory_is_a_row_with_nulls_and_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "full.pftrace"
    with pytest.raises(MemoryError), coldstep.trace(path, collectors=[]), coldstep.step("gpt2"):
        raise MemoryError("Unable to allocate 24.5 GiB")
    there = of_stack("jax")
    *_, row = compare([(str(path), coldstep.load(path)), ("jax.pftrace", there)]).rows
    assert (row.trace, row.first_ns, row.second_ns, row.steady_ns) == (str(path), None, None, None)
    assert row.reasons["ended"].startswith("Out of memory in step 0 of gpt2")
    assert "24.5 GiB" in row.reasons["ended"]
    assert row.reasons["memory"] == "no step was finished"
    assert (row.compiles, row.graphs_per_step) == (None, None)
    assert row.reasons["compiles"].startswith("not known: ")
    assert row.reasons["operations"] == row.reasons["compiles"]


def test_traces_without_a_common_step_are_one_line(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with coldstep.trace(tmp_path / f"{name}.pftrace", collectors=[]), coldstep.step(f"steps of {name}"):
            pass
    done = run(tmp_path / "a.pftrace", tmp_path / "b.pftrace")
    assert (done.exit_code, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert "no step of one name in all traces" in line
    assert "b.pftrace has steps of b" in line
    assert run(tmp_path / "a.pftrace", "--json", "--html", tmp_path / "page.html").exit_code == 2
    assert run(tmp_path / "a.pftrace", "--html", tmp_path / "a.pftrace").exit_code == 2


@pytest.mark.jax
@pytest.mark.torch
def test_the_command_says_it_as_text_and_as_data(repository: Path) -> None:
    paths = [repository / f"{name}.pftrace" for name in ("main", "branch")]
    data = json.loads(run(*paths, "--json").stdout)
    assert data["schema"] == "coldstep-compare/1"
    assert data["name"] in ("step", "evaluation")
    assert {row["trace"] for row in data["stacks"]} == set(map(str, paths))
    fields = {"stack", "trace", "first_ns", "second_ns", "steady_ns", "settled_at_step", "compiles", "graphs_per_step",
              "phases", "memory", "operations", "reasons"}  # fmt: skip
    assert all(set(row) == fields for row in data["stacks"])
    said = run(*paths).stdout
    for row in data["stacks"]:
        assert f"({Path(row['trace']).stem})" in said  # of one stack both, they are told apart by their files
        assert all(reason.partition(": ")[2].split()[0] in said for reason in row["reasons"])


def test_what_a_trace_says_cannot_break_the_table() -> None:
    found = compare([("jax.pftrace", of_stack("jax", "x\x1b[31m\u202e"))])
    assert "\x1b" not in text(found, [], "", 100)
    assert "\u202e" not in text(found, [], "", 100)


def test_the_page_shows_every_stack_with_its_reasons(browser: Browser, both: Stacks, tmp_path: Path) -> None:
    from coldstep_viewers.pages.frameworks_page import page

    path = tmp_path / "page.html"
    path.write_text(page(both, [], "no programs were kept"), "utf-8")
    with tools.opened(browser, path, width=1200) as seen:
        rows = seen.page.locator("table.stacks tbody tr")
        expect(rows).to_have_count(2)
        expect(rows.first).to_contain_text("torch.compile")
        expect(seen.page.get_by_label("JAX", exact=True)).to_contain_text("Second11.0 mscompiled nothing")
        expect(seen.page.locator("#programs")).to_contain_text("no programs were kept")
        widths = "lanes => lanes.map(lane => [...lane.children].reduce((sum, b) => sum + parseFloat(b.style.width), 0))"
        bars = seen.page.locator("table.phases .lane").evaluate_all(widths)
        assert max(bars) == pytest.approx(100, abs=0.1)
        found = Axe().run(seen.page)
        assert found.violations_count == 0, found.generate_report()
        seen.page.set_viewport_size({"width": 400, "height": 900})
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= 400
        seen.assert_quiet()


def test_the_page_takes_a_hostile_name_for_text(browser: Browser, tmp_path: Path) -> None:
    from coldstep_viewers.pages.frameworks_page import page

    trace = of_stack("jax", HOSTILE)
    for row in trace.compiles:
        row.function = HOSTILE
    path = tmp_path / "page.html"
    path.write_text(page(compare([(f"{HOSTILE[:20]}.pftrace", trace)]), [], ""), "utf-8")
    with tools.opened(browser, path) as seen:
        assert seen.page.evaluate("window.hacked") is None
        expect(seen.page.locator("#reasons")).to_contain_text("<script>window.hacked=1</script>")
        seen.assert_quiet()
