"""`coldstep explain`: each cause and graph break that a report can name has an explanation, and the report names it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import get_args

from click.testing import CliRunner, Result
from sample_trace import sample

from coldstep.model import BreakKind
from coldstep.vocabulary import CAUSES
from coldstep_viewers.catalogue.pages import BREAKS, pages
from coldstep_viewers.commands import cli
from coldstep_viewers.report.terminal import render


def explain(*words: str) -> Result:
    return CliRunner().invoke(cli.main, ["explain", *words], prog_name="coldstep")


def test_without_a_word_the_causes_are_listed() -> None:
    lines = explain().stdout.splitlines()
    listed = [line.split()[0] for line in lines]
    assert len(listed) == len({*listed})
    assert {row.name for row in CAUSES} - {"unknown"} <= {*listed}
    assert {*get_args(BreakKind)} - {"other"} == BREAKS.keys() <= {*listed}
    [line] = [line for line in lines if line.startswith("weak_type ")]
    assert "a JAX number adapts to the dtype of the other operand (JAX)" in line


def test_a_cause_is_explained_with_a_program_its_report_and_the_remedy() -> None:
    text = explain("weak_type").stdout
    for words in ("weak_type: whether a JAX number", "JAX: weak_type", "Fix: Begin with a strong type", "@jax.jit",
                  "cause    weak_type of total: f32[] weak → f32[]"):  # fmt: skip
        assert words in text
    assert max(map(len, text.splitlines())) <= 120


def test_one_stack_can_be_asked_for_and_several_causes() -> None:
    assert "torch.compile: shape" in explain("shape").stdout
    text = explain("shape", "dtype", "--stack", "jax").stdout
    assert "JAX: shape" in text
    assert "JAX: dtype" in text
    assert "torch.compile" not in text


def test_each_page_is_whole_in_json_and_in_markdown() -> None:
    document = json.loads(explain("--format", "json").stdout)
    assert document["schema"] == "coldstep-explain/1"
    assert len(document["pages"]) == len([*pages()]) > 60
    markdown = explain("host_read", "--format", "markdown").stdout
    assert markdown.startswith("# host_read\n")
    assert markdown.count("```python") == 2  # a cause, and a kind of graph break
    assert markdown.count("```") % 2 == 0


def test_a_near_miss_is_one_line() -> None:
    done = explain("weak_typ")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == "coldstep: no cause 'weak_typ': did you mean weak_type? (coldstep explain lists them)\n"


def test_a_report_names_the_command_for_the_causes_that_it_names() -> None:
    trace = sample()
    assert render(trace).endswith("\nWhat it means, with examples: coldstep explain shape data_dependent")
    for words in render(trace).split()[-2:]:
        assert explain(words).exit_code == 0
    trace.recompiles = [replace(row, cause="unknown") for row in trace.recompiles]
    trace.graph_breaks = []
    assert "coldstep explain" not in render(trace)
