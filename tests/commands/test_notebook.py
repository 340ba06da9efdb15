"""A real notebook, executed in a real kernel: what its cells show, and what they record."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import browser as tools
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect

import coldstep

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytestmark = pytest.mark.jax

VIEWERS = Path(__file__).parents[2] / "docs/how-to/notebooks.md"
CELLS = [
    """
    %load_ext coldstep
    import jax, jax.numpy as jnp
    """,
    """
    %%coldstep one.pftrace              # this cell
    @jax.jit
    def double(x):
        return 2 * x
    for n in (3, 3, 3, 3, 5):
        with coldstep.step():
            y = coldstep.wait(double(jnp.ones(n)))
    y.shape
    """,
    """
    %%coldstep
    1 / 0
    """,
    "coldstep.load('one.pftrace')",
    "%coldstep_steps on steps.pftrace   # each further cell, don't forget",
    "triple = jax.jit(lambda x: 3 * x)",
    "triple(jnp.ones(3)).shape",
    "triple(jnp.ones(4)).shape",
    "%coldstep_steps off                # until here",
    "%coldstep_steps sometimes",
]
DEFINED = """
    import torch
    @jax.jit
    def double(x):
        return 2 * x
    @torch.compile(backend="eager")
    def triple(x):
        return 3 * x
    """
CELLED = "double(jnp.ones(3)).shape, triple(torch.ones(3)).shape"
AGAIN = ["%coldstep_steps on again.pftrace", DEFINED, CELLED, DEFINED, CELLED, "%coldstep_steps off"]
"""A cell that defines functions, and runs again as it is."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("notebook")


@pytest.fixture(scope="module")
def cells(folder: Path) -> list[list[Any]]:
    """The outputs of each cell."""
    sources = [textwrap.dedent(cell).strip() for cell in (*CELLS, *AGAIN)]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    nbclient.NotebookClient(
        notebook, timeout=300, allow_errors=True, resources={"metadata": {"path": str(folder)}}
    ).execute()
    return [cell.outputs for cell in notebook.cells]


def test_the_example_of_the_docs_runs_as_it_is_written(tmp_path: Path) -> None:
    [block] = re.findall(r"# In a notebook\n\n```\n(.*?)```", VIEWERS.read_text(), flags=re.DOTALL)
    load, *cells = block.replace("\n%", "\n\n%").split("\n\n")
    sources = [
        load,
        "data, state = [1, 2], 0\ndef train_step(state, batch):\n    return state + batch",
        *cells,
        "state",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert notebook.cells[-1].outputs[0].data["text/plain"] == "3"


def html(outputs: list[Any]) -> str:
    [found] = [output.data["text/html"] for output in outputs if "text/html" in output.get("data", {})]
    return str(found)


def test_a_cell_under_a_trace_shows_its_report_and_its_result(folder: Path, cells: list[list[Any]]) -> None:
    shown, results = html(cells[1]), [output for output in cells[1] if output.output_type == "execute_result"]
    assert [output.data["text/plain"] for output in results] == ["(5,)"]
    assert "settled at step 1; 1 recompile at step 4" in shown
    assert "double recompiled in step 4 (shape): x was f32[3], now f32[5]" in shown
    [recompile] = coldstep.load(folder / "one.pftrace").recompiles
    assert (recompile.argument, recompile.step) == ("x", 4)
    assert "<script" not in shown


def test_places_are_named_by_their_cells_in_the_order_of_execution(folder: Path, cells: list[list[Any]]) -> None:
    trace = coldstep.load(folder / "one.pftrace")
    [row] = [row for row in trace.compiles if row.reason == "recompile"]
    assert row.location is not None
    assert row.caller is not None
    assert (row.location.file, row.caller.file, row.caller.line) == ("In[2]", "In[2]", 6)
    later = coldstep.load(folder / "steps.pftrace")
    assert {row.caller.file for row in later.compiles if row.caller and row.function == "<lambda>"} == {
        "In[7]",
        "In[8]",
    }


def test_a_terminal_s_ipython_shows_the_report(folder: Path, cells: list[list[Any]]) -> None:
    from IPython.core.formatters import PlainTextFormatter

    said = PlainTextFormatter()(coldstep.load(folder / "one.pftrace"))
    assert "double" in said
    assert "What to change" in said or "Recompiles (1)" in said


def test_an_error_in_the_cell_is_the_cells_own_and_the_report_says_it(cells: list[list[Any]]) -> None:
    [error] = [output for output in cells[2] if output.output_type == "error"]
    assert error.ename == "ZeroDivisionError"
    assert "ZeroDivisionError: division by zero" in html(cells[2])


def test_a_loaded_trace_shows_the_same(cells: list[list[Any]]) -> None:
    assert html(cells[3]) == html(cells[1])
    [output] = cells[3]
    assert output.data["text/plain"].startswith("<trace of ")
    assert len(output.data["text/plain"]) < 500


def test_each_cell_is_a_step(folder: Path, cells: list[list[Any]]) -> None:
    trace = coldstep.load(folder / "steps.pftrace")
    steps = [row for row in trace.intervals if row.kind == "step"]
    assert [(row.name, row.step, row.label) for row in steps] == [
        ("cell", 0, "first"), ("cell", 1, "settling"), ("cell", 2, "settling")]  # fmt: skip
    [recompile] = trace.recompiles
    assert (recompile.step, recompile.argument, recompile.before, recompile.after) == (2, "x", "f32[3]", "f32[4]")
    assert "cell: first step" in html(cells[8])
    assert cells[9][0].text == "UsageError: %coldstep_steps on [FILE], or %coldstep_steps off\n"


@pytest.mark.torch
def test_a_function_whose_cell_ran_again_is_no_other_one(folder: Path, cells: list[list[Any]]) -> None:
    trace = coldstep.load(folder / "again.pftrace")
    rows = {row.function: row for row in trace.compiles if row.reason == "recompile"}
    assert {row.function for row in trace.compiles if row.origin == "user"} == {"double", "triple"} == set(rows)
    for row in trace.recompiles:
        assert row.cause == "new_function"
        assert [text and text.rpartition(", ")[2] for text in (row.before, row.after)] == [
            "run 1 of its cell", "run 2 of its cell"]  # fmt: skip
        assert row.advice.startswith("The cell that defines this function ran again.")
    assert not [row for row in trace.findings if row.kind in ("repeat_offender", "cache_limit_near")]
    assert "The cell that defines this function ran again." in html(cells[len(CELLS) + len(AGAIN) - 1])


@pytest.mark.parametrize("dark", [False, True])
def test_what_is_shown_changes_nothing_of_the_page_around_it(
    browser: Browser, tmp_path: Path, cells: list[list[Any]], dark: bool
) -> None:
    page = tmp_path / "notebook.html"
    page.write_text(
        f"<!doctype html><html lang=en><title>x</title><main><h1>A notebook</h1><p>Around.</p>{html(cells[1])}</main>"
    )
    with tools.opened(browser, page, dark=dark) as seen:
        expect(seen.page.locator(".headline")).to_be_visible()
        seen.page.get_by_text("Where the time went").click()
        expect(seen.page.locator(".waterfall")).to_contain_text("XLA compilation")
        bars = seen.page.locator(".waterfall .lane b:not(.whole)")
        assert "rgba(0, 0, 0, 0)" not in bars.evaluate_all("bars => bars.map(b => getComputedStyle(b).backgroundColor)")
        seen.page.locator("details.finding > summary").first.click()
        expect(seen.page.locator(".change").first).to_have_text("xf32[3] → f32[5]")
        fonts = [
            seen.page.locator(where).evaluate("p => getComputedStyle(p).font") for where in ("h1 + p", ".headline")
        ]
        assert "system-ui" not in fonts[0]
        assert "system-ui" in fonts[1]
        found = Axe().run(seen.page)
        assert found.violations_count == 0, found.generate_report()
        seen.assert_quiet()
