"""The HTML page in a real browser: what a reader sees, does and hears; and that nothing in a trace can act on it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import browser as tools
import generated_trace
import pytest
from axe_playwright_python.sync_playwright import Axe
from browser import Seen
from markupsafe import escape
from playwright.sync_api import Browser, expect
from sample_trace import MS, sample

import coldstep
from coldstep._util.figures import duration, percent
from coldstep.analysis.findings import findings
from coldstep.model import Finding, GraphBreak, Trace
from coldstep_viewers.report.html import page, summary
from coldstep_viewers.safe_text import plain

HOSTILE = "<script>window.hacked=1</script>\"'\\</script><!--\u2028\u202e{{7*7}}&lt;"


def with_findings() -> Trace:
    trace = sample()
    trace.findings = findings(trace)
    return trace


def write(trace: Trace, folder: Path) -> Path:
    path = folder / "page.html"
    path.write_text(page(trace), "utf-8")
    return path


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(with_findings(), tmp_path_factory.mktemp("page"))


@pytest.fixture
def seen(browser: Browser, file: Path) -> Iterator[Seen]:
    with tools.opened(browser, file) as opened:
        yield opened
        opened.assert_quiet()


# --- what it says -------------------------------------------------------------------------------------------------


def test_the_page_begins_with_the_headline_and_the_large_figures(seen: Seen) -> None:
    headline = seen.page.get_by_role("heading", level=1)
    expect(headline).to_contain_text("torch: first step 30.1 s, 56 % C++ compilation; first settled at step 1")
    jax = seen.page.get_by_label("Figures of jax")
    expect(jax).to_contain_text("First step3.2 s82 % XLA compilation")
    expect(jax).to_contain_text("Steady step13.5 ms± 3.2 ms, 6 steps")
    expect(jax).to_contain_text("Recompiles13.0 s in all")


def test_the_waterfall_goes_from_process_start_to_settled_without_a_gap(seen: Seen) -> None:
    trace = with_findings()
    rows = seen.page.locator(".waterfall tbody tr")
    said = rows.evaluate_all(
        """rows => rows.map(row => [
            row.matches(".stretch") ? row.querySelector("th").firstChild.textContent.trim() : "",
            parseFloat(row.querySelector(".lane b").style.left),
            parseFloat(row.querySelector(".lane b").style.width),
        ])"""
    )
    stretches = ["before the trace", "before the first step", "jax step 0", "jax steps 1-7 and between", "torch step 0"]
    assert [name for name, *_ in said if name] == stretches
    at = 0.0
    for _, left, width in (row for row in said if not row[0] or row[0] == stretches[0]):
        assert left == pytest.approx(at, abs=0.01)
        at = left + width
    assert at == pytest.approx(100, abs=0.2)
    settled = next(cost for cost in trace.cost if cost.name == "torch").time_to_settled_ns or 0
    # what lies between the last step shown and the settled one is 100 µs
    expect(seen.page.locator(".waterfall caption")).to_contain_text(duration(settled))


def test_steps_told_apart_and_both_scales_hold_the_slowest_and_the_fastest(seen: Seen) -> None:
    chart = seen.page.locator("figure.steps").nth(1)
    expect(chart.locator(".legend")).to_contain_text("C++ compilation")
    expect(chart.locator(".legend")).to_contain_text("recompiled")
    heights = "bars => bars.map(bar => [Number(bar.getAttribute('x')), bar.getBBox().height])"

    def bars() -> dict[float, float]:
        found: dict[float, float] = {}
        for x, height in chart.locator(".bars rect").evaluate_all(heights):
            found[x] = found.get(x, 0) + height
        return found

    expect(chart.get_by_role("button", name="linear")).to_have_attribute("aria-pressed", "true")
    linear = bars()
    assert len(linear) == 8
    assert min(linear.values()) < 1
    chart.get_by_role("button", name="log").click()
    logarithmic = bars()
    assert min(logarithmic.values()) > 20
    assert max(logarithmic.values()) > 3 * min(logarithmic.values())
    expect(chart.get_by_role("button", name="log")).to_have_attribute("aria-pressed", "true")


def test_a_step_is_read_out_by_pointer_and_by_key(seen: Seen) -> None:
    figure = seen.page.locator("figure.steps").first
    readout = figure.locator(".readout")
    expect(readout).to_contain_text("step 0 first, 3.2 s: XLA compilation 82 %, JAX tracing 10 %")
    figure.locator(".chart").focus()
    seen.page.keyboard.press("ArrowRight")
    expect(readout).to_contain_text("step 1 steady, 11.0 ms: execution 91 %, unattributed 9 %")
    seen.page.keyboard.press("End")
    expect(readout).to_contain_text("step 7 recompiled, 3.0 s")
    box = figure.locator(".chart").bounding_box()
    assert box is not None
    seen.page.mouse.move(box["x"] + box["width"] / 2 + 60, box["y"] + 100)
    expect(readout).to_contain_text("step 4 steady, 14.0 ms")
    figure.get_by_text("As a table").click()
    expect(figure.get_by_role("row", name=re.compile("^step 7 "))).to_contain_text("recompiled, 3.0 s")


def test_findings_come_by_cost_and_open_from_the_keyboard(seen: Seen) -> None:
    rows = seen.page.locator("details.finding")
    assert rows.count() == len(with_findings().findings)
    assert rows.locator(".cost").all_inner_texts()[:3] == ["27.5 s", "3.0 s", "2.2 s"]
    first = rows.first
    expect(first.get_by_text("Keep the shape of tokens fixed.")).to_be_hidden()
    first.locator("summary").focus()
    seen.page.keyboard.press("Enter")
    expect(first.get_by_text("Keep the shape of tokens fixed.")).to_be_visible()
    expect(first.locator(".change")).to_have_text("tokensi64[8,32] → i64[5,32]")
    expect(first).to_contain_text("examples/demo.py:41 in train_step")
    expect(first.locator("pre").first).to_have_text("def train_step(params, batch):")
    first.locator(".links a").click()
    row = seen.page.locator("tr.sought")
    expect(row).to_contain_text("GPT.forward")
    expect(row.locator("button")).to_be_focused()
    expect(seen.page.locator("tr.more")).to_contain_text("shape of tokens: i64[8,32] → i64[5,32]")


def test_tables_sort_and_search(seen: Seen) -> None:
    table = seen.page.locator("#compiles")
    head = table.get_by_role("columnheader", name="Time")
    times = table.locator("tbody td.number")
    expect(head).to_have_attribute("aria-sort", "descending")
    expect(times).to_have_text(["29.6 s", "20.0 s", "3.2 s", "2.6 s", "105 ms"])
    expect(table.get_by_role("status")).to_have_text("25 compiles, those that are alike in one row")
    like = table.get_by_role("button", name="and 20 like it: 105 ms to 105 ms, 2.1 s in all")
    like.click()
    expect(times).to_have_text(["29.6 s", "20.0 s", "3.2 s", "2.6 s", *["105 ms"] * 21])
    every = table.get_by_role("button", name="each by itself")
    every.click()
    expect(every).to_have_attribute("aria-pressed", "true")
    expect(times).to_have_count(25)
    every.click()
    expect(times).to_have_count(5)
    table.get_by_role("button", name="and 20 like it").click()
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "ascending")
    expect(times.first).to_have_text("105 ms")
    table.get_by_role("columnheader", name="Function").get_by_role("button").click()
    assert [text.strip() for text in table.locator("tbody td:first-child").all_inner_texts()[:2]] == [
        "broadcast_in_dim"
    ] * 2
    table.get_by_role("searchbox").fill("GPT.for")
    expect(table.get_by_role("status")).to_have_text("2 of 25 compiles")
    expect(table.locator("tbody tr")).to_have_count(2)
    table.get_by_role("searchbox").fill("no such thing")
    expect(table.get_by_role("status")).to_have_text("0 of 25 compiles")
    breaks = seen.page.locator("#graph-breaks")
    breaks.get_by_role("button", name="data dependent").click()
    expect(breaks.locator("tr.more")).to_contain_text("Use `torch.cond` to express dynamic control flow.")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1200, 400])
def test_it_is_usable_in_every_light_width_and_by_everyone(
    browser: Browser, file: Path, dark: bool, width: int
) -> None:
    with tools.opened(browser, file, dark=dark, width=width) as seen:
        seen.page.evaluate("for (const details of document.querySelectorAll('details')) details.open = true")
        assert seen.page.evaluate("document.documentElement.scrollWidth") == width
        found = Axe().run(seen.page)
        assert found.violations_count == 0, found.generate_report()
        seen.assert_quiet()


def test_on_paper_every_finding_is_open(seen: Seen) -> None:
    seen.page.emulate_media(media="print")
    seen.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    for row in seen.page.locator("details.finding").all():
        expect(row.locator("dl")).to_be_visible()
    expect(seen.page.locator("nav")).to_be_hidden()
    seen.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert seen.page.locator("details.finding[open]").count() == 0


# --- any trace ----------------------------------------------------------------------------------------------------


SCHEMA = ("id", "kind", "label", "measures", "source", "severity", "verdict", "by", "ended", "reason", "started",
          "compile", "previous", "origin", "refs", "compiles", "identities",
          "vocabulary")  # fmt: skip


def poisoned(value: Any) -> Any:
    """`value` with every text in it hostile, but for ids and the words of the schema."""
    if is_dataclass(value) and not isinstance(value, type):
        texts = {f.name: getattr(value, f.name) for f in fields(value) if f.name not in SCHEMA}
        if isinstance(value, Trace):
            texts["compiles"] = value.compiles
        if isinstance(value, GraphBreak):
            texts["kind"], texts["reason"] = value.kind, value.reason
        return replace(value, **{name: poisoned(text) for name, text in texts.items()})
    if isinstance(value, str):
        return f"{value}{HOSTILE}"
    if isinstance(value, list):
        return [poisoned(item) for item in value]
    if isinstance(value, dict):
        return type(value)({poisoned(key): poisoned(item) for key, item in value.items()})
    return value


def test_hostile_names_stay_text(browser: Browser, tmp_path: Path) -> None:
    trace = poisoned(replace(with_findings(), code={}))
    trace.code = {(f"{file}{HOSTILE}", line): f"{text}{HOSTILE}" for (file, line), text in sample().code.items()}
    for id_ in ("c0", "c1"):
        trace.details[id_].programs = {"jaxpr": HOSTILE}
    trace.run.error, trace.run.ended, trace.run.notes = HOSTILE, "exception", [HOSTILE, "x" * 100_000]
    trace.compiles[0].function = "x" * 100_000
    with tools.opened(browser, write(trace, tmp_path)) as seen:
        assert "{{7*7}}" in seen.page.get_by_role("heading", level=1).inner_text()
        for details in seen.page.locator("details > summary").all():
            details.click()
        for button in seen.page.locator("tbody td button").all():
            button.click()
        shown = seen.page.locator("body").inner_text()
        assert "49" not in re.findall(r"</script><!--\S*?(\d+)&lt;", shown)
        assert shown.count("<script>window.hacked=1</script>") > 100
        assert "\u202e" not in shown
        assert len(shown) < 1_000_000
        assert seen.page.evaluate("window.hacked") is None
        assert seen.page.locator("script").count() == 4
        assert seen.page.locator("body script").count() == 4
        assert seen.page.evaluate("document.documentElement.scrollWidth") == 1200
        seen.assert_quiet()
    assert HOSTILE[:8] not in summary(trace)
    assert "&lt;script&gt;window.hacked" in summary(trace)


def test_a_script_that_came_in_all_the_same_would_not_run(browser: Browser, file: Path, tmp_path: Path) -> None:
    """The page's own policy is the second line of defence."""
    broken = tmp_path / "broken.html"
    markup = "<script>window.hacked=1</script><img src='http://127.0.0.1:1/x' onerror='window.hacked=2'>"
    broken.write_text(file.read_text().replace("<main>", f"<main>{markup}"))
    with tools.opened(browser, broken) as seen:
        assert seen.page.evaluate("window.hacked") is None
        assert len(seen.complaints) >= 2
        assert all("Content Security Policy" in text for text in seen.complaints)


def many(steps: int, compiles: int) -> Trace:
    """A trace as a long run leaves it, its rows made from those of the sample."""
    trace = sample()
    first = trace.intervals[1]
    steady = replace(first, label="steady", wall_ns=2 * MS, phases={"execute": 2 * MS}, unattributed_ns=0)
    trace.intervals = [replace(first, index=0, step=0)]
    every = steps // compiles
    for n in range(1, steps):
        again = n % every == 0
        wall = (80 + n % 97) * MS if again else 2 * MS
        start = trace.intervals[-1].start_ns + trace.intervals[-1].wall_ns
        phases = {"xla.compile": wall} if again else steady.phases
        label = "recompiled" if again else "steady"
        trace.intervals.append(
            replace(steady, index=n, step=n, label=label, start_ns=start, wall_ns=wall, phases=phases)
        )
    slow = trace.intervals[steps // 2 + 1]
    slow.wall_ns = 9_000 * MS
    segment = trace.compiles[0].segments[0]
    trace.compiles = [
        replace(trace.compiles[0], id=f"c{n}", segments=[replace(segment, interval=n * every)], wall_ns=n * 1_000)
        for n in range(compiles)
    ]
    trace.recompiles = [
        replace(trace.recompiles[0], id=f"r{n}", compile=f"c{n}", interval=n * every, step=n * every)
        for n in range(1, compiles)
    ]
    trace.cost, trace.settling, trace.graph_breaks = trace.cost[:1], trace.settling[:1], []
    trace.cost[0].first_step.interval = 0
    trace.findings = findings(trace)
    return trace


def test_100_000_steps_and_5_000_compiles_are_aggregated_and_outliers_kept(browser: Browser, tmp_path: Path) -> None:
    file = write(many(100_000, 5_000), tmp_path)
    assert file.stat().st_size < 10_000_000
    with tools.opened(browser, file) as seen:
        bars = seen.page.evaluate("JSON.parse(document.getElementById('data').textContent).kinds[0].bars")
        assert len(bars) <= 361
        assert sum(sum(bar["labels"].values()) for bar in bars) == 100_000
        assert sum(bar["labels"].get("recompiled", 0) for bar in bars) == 4_999
        assert [bar["to"] for bar in bars if bar["ns"] == 9_000 * MS] == [50_001]
        assert all(before["to"] + 1 == after["from"] for before, after in pairwise(bars))
        expect(seen.page.get_by_role("status").first).to_have_text("5,000 compiles, those that are alike in one row")
        assert seen.page.locator("#compiles tbody tr").count() == 2  # the first, and those again for the same cause
        seen.page.locator("#compiles").get_by_role("button", name="each by itself").click()
        assert seen.page.locator("#compiles tbody tr").count() == 25
        assert seen.page.evaluate("document.querySelectorAll('*').length") < 12_000
        expect(seen.page.locator("#findings")).to_contain_text("4899 more findings of smaller cost")
        seen.assert_quiet()


def bare() -> Trace:
    trace = sample()
    trace.intervals, trace.compiles, trace.graph_breaks = trace.intervals[:1], [], []
    trace.cost, trace.recompiles, trace.settling = [], [], []
    return trace


def cut() -> Trace:
    trace = bare()
    step = replace(sample().intervals[1], label=None)
    trace.intervals.append(step)
    trace.unfinished, trace.run.ended = 1, "killed"
    return trace


@pytest.mark.parametrize(
    ("trace", "says"),
    [(bare(), "No step was marked."), (cut(), "killed in step 0 of jax, not finished after at least 3.2 s")],
    ids=["without steps", "killed in its first step"],
)
def test_a_trace_with_little_in_it_has_a_page_too(browser: Browser, tmp_path: Path, trace: Trace, says: str) -> None:
    with tools.opened(browser, write(trace, tmp_path)) as seen:
        expect(seen.page.locator("body")).to_contain_text(says)
        expect(seen.page.locator("#compiles")).to_contain_text("None.")
        seen.assert_quiet()


def test_programs_and_how_they_differ_are_there_where_they_were_kept(browser: Browser, tmp_path: Path) -> None:
    trace = with_findings()
    program = "{ lambda ; a:i32[%d,32]. let\n    b:i32[%d,32] = neg a\n  in (b,) }"
    for id_, text in {"c0": program % (8, 8), "c1": program % (5, 5), "c4": "not the user's"}.items():
        trace.details[id_].programs = {"jaxpr": text}
    with tools.opened(browser, write(trace, tmp_path)) as seen:
        programs = seen.page.locator("details.program")
        titles = ["train_step, c0 → c1: what differs", "train_step, c0: jaxpr 3 lines", "train_step, c1: jaxpr 3 lines"]
        expect(programs.locator("summary")).to_contain_text(titles)
        programs.nth(1).locator("summary").click()
        expect(programs.nth(1).locator("pre")).to_contain_text("{ lambda ; a:i32[8,32]")
        assert "i32[8,32] → i32[5,32]" in (programs.first.locator("pre").text_content() or "")
        seen.assert_quiet()
    for row in trace.compiles:
        trace.details[row.id].programs = {"stablehlo": "module\n" * 70_000}
    assert len(page(trace)) < 3_000_000


def test_two_programs_of_a_strangers_stay_text_side_by_side() -> None:
    trace = with_findings()
    program = "{ lambda ; a:i32[4]. let\n    b:i32[4] = %s a  # /repo/%s.py:3:1 (f)\n  in (b,) }"
    for id_, operation in (("c0", "neg"), ("c1", "sin")):
        trace.details[id_].programs = {"jaxpr": program % (operation, HOSTILE)}
    made = page(trace)
    assert HOSTILE[:8] not in made.partition('id="programs"')[2].partition("</section>")[0]
    line = f"{escape(plain(HOSTILE))}.py:3"
    row = f"<td>{line}</td><td>%0:i32[4] = neg %1</td><td>%0:i32[4] = sin %2</td></tr>"
    assert row in made


def test_memory_over_time_is_drawn_where_it_was_recorded(browser: Browser, tmp_path: Path) -> None:
    trace = with_findings()
    for row in trace.intervals:
        row.rss_bytes = (1 << 30) + row.index * (1 << 20)
    with tools.opened(browser, write(trace, tmp_path)) as seen:
        chart = seen.page.locator("figure.memory svg")
        expect(chart).to_contain_text("resident")
        expect(chart.locator("[aria-label=line] path")).to_have_count(1)
        seen.assert_quiet()


# --- the command --------------------------------------------------------------------------------------------------


def report(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "coldstep", "report", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_command_writes_the_page_of_the_trace(tmp_path: Path) -> None:
    trace, out = tmp_path / "run.pftrace", tmp_path / "out.html"
    generated_trace.write(trace, steps=20, compiles=2)
    done = report(trace, "--html", out)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{out}\n", "")
    text = out.read_text()
    assert len(text) < 3_000_000
    first = coldstep.load(trace).cost[0].first_step
    assert f"first step {duration(first.wall_ns)}, {percent(first.phases[0].share)} XLA compilation" in text
    assert "http://" not in text.partition("<script")[0]


def test_what_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    trace = tmp_path / "run.pftrace"
    generated_trace.write(trace, steps=3, compiles=1)
    done = report(trace, "--html", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"coldstep: cannot write {tmp_path}: Is a directory\n"
    assert report(trace, "--html", tmp_path / "x", "--json").returncode == 2


def test_findings_that_are_alike_share_a_line() -> None:
    trace = sample()
    trace.recompiles = [
        replace(trace.recompiles[0], id=f"r{n}", cause="dtype" if n == 7 else "shape") for n in range(40)
    ]
    trace.findings = [
        Finding(f"f{n}", 0, "recompile", "warning", 1, 0, (40 - n) * MS, None, f"the {n}th", [], "", [f"r{n}"])
        for n in range(40)
    ]
    found = page(trace)
    before, after = found.split('<details class="further">')
    assert "the 0th" in before
    assert "and 38 like it: 1.0 ms to 39.0 ms" in before
    assert "the 7th" in before
    assert "the 1th" not in before
    assert all(f"the {n}th" in after for n in range(1, 40) if n != 7)
    assert "and 38 like it" in summary(trace)
