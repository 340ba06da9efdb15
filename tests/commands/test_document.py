"""One document, many renderers: what one format says the others say, and none lets a trace's texts be markup."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from markupsafe import escape
from sample_trace import sample

import coldstep
from coldstep.model import Autotuning, Build, Location
from coldstep_viewers.report.document import Block, Table
from coldstep_viewers.report.html import page
from coldstep_viewers.report.markdown import render as markdown
from coldstep_viewers.report.sections import document
from coldstep_viewers.report.terminal import render

TRACES = sorted((Path(__file__).parents[1] / "traces").glob("*.pftrace"))
EVIL = "</p><script>hacked()</script>\n# **x** `y` [z](javascript:hacked()) | \x1b[31m"


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
@pytest.mark.parametrize("every", [False, True])
def test_each_section_is_in_the_terminal_and_in_markdown(path: Path, every: bool) -> None:
    trace = coldstep.load(path)
    shown = document(trace, every)
    text, marked = render(trace, width=400, every=every), MarkdownIt().render(markdown(trace, every))
    assert {"time", "steps"} <= {section.key for section in shown.sections}
    headings = re.findall(r"<h3>(.*?)</h3>", marked)
    for section in shown.sections:
        assert section.parts
        assert f"\n{section.title}" in text
    assert len(headings) == len(shown.sections) + 1  # and the answer's


def test_the_page_has_each_section_that_it_does_not_draw() -> None:
    trace = sample()
    trace.builds = [Build("b0", 0, "fused_adam", "ninja", 0, 20_900_000_000, "built", Location("train.py", 3, ""), 0)]
    trace.autotuning = [Autotuning(0, None, "mm(64x192)", 4, 1, 2_900_000_000, "fastest", 5, 9, False, None, 0)]
    shown = page(trace)
    for words in ("Built outside of the frameworks (1)", "ninja, train.py:3", "20.9 s", "Autotuning (1)", "mm(64x192)"):
        assert words in shown
    drawn = {"time", "steps", "recompiles", "breaks", "memory", "findings", "ended", "unobserved"}
    for path in TRACES:
        loaded = coldstep.load(path)
        written = page(loaded)
        for section in document(loaded).sections:
            assert section.key in drawn or f"<h2>{escape(section.title)}</h2>" in written, (path, section.key)


def test_what_is_said_in_the_short_form_is_known_to_be_short() -> None:
    assert document(sample()).shortened
    assert not document(sample(), every=True).shortened
    explained = "What it means, with examples: `coldstep explain shape data_dependent`"
    assert markdown(sample()).endswith(f"by itself.\n\n{explained}")
    assert markdown(sample(), every=True) != markdown(sample())


def test_no_text_of_a_trace_is_markup_in_markdown() -> None:
    trace = sample()
    trace.run.command, trace.run.notes = [EVIL], [EVIL]
    trace.compiles[1].function = trace.compiles[3].function = EVIL
    trace.recompiles = [replace(row, argument=EVIL, evidence=[EVIL], advice=EVIL) for row in trace.recompiles]
    trace.graph_breaks = [replace(row, reason=EVIL, function=EVIL, advice=EVIL) for row in trace.graph_breaks]
    trace.code = dict.fromkeys(trace.code, EVIL)
    clean = MarkdownIt().enable("table").render(markdown(sample(), every=True))
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown(trace, every=True))
    for tag in ("script", "a ", "h1"):
        assert f"<{tag}" not in html
    assert html.count("<h3") == clean.count("<h3") + 1, "Not observed: the note"
    assert "hacked()" in html
    assert "\x1b" not in html


def test_a_format_of_ones_own_finds_sections_tables_and_blocks() -> None:
    sections = {section.key: section for section in document(sample()).sections}
    [table] = [part for part in sections["time"].parts if isinstance(part, Table)]
    assert "".join(span.text for span in table.rows[0][0]) == "before the trace"
    blocks = [part for part in sections["recompiles"].parts if isinstance(part, Block)]
    assert [dict(block.facts)["advice"][0].text for block in blocks] == [
        "Keep the shape of tokens fixed.",
        "Keep the shape of batch['tokens'] fixed.",
    ]


def test_the_page_says_what_was_not_observed_as_the_terminal_does() -> None:
    trace = sample()
    trace.run.notes = ["A second trace joined."]
    assert "A second trace joined." in render(trace)
    assert "A second trace joined." in page(trace).partition('<section id="unobserved">')[2]
