"""The report begins with what to change, and code in it is never a stranger's."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import generated_trace
import pytest
from markdown_it import MarkdownIt
from threads.judge import followed

import coldstep
from coldstep.analysis.answers import MOST, answers
from coldstep.analysis.make_finding import NO_GRAPH, finding
from coldstep.analysis.remedies import edits
from coldstep.analysis.remedies.edits import find_call, is_plain, parameters, with_keyword
from coldstep.analysis.remedies.row import Row
from coldstep.analysis.remedies.table import Case, Place, advice, remedies
from coldstep.analysis.remedies.uncalled import compiled, kept_beside
from coldstep.analysis.steps.eager_programs import ONE_JIT, is_paid_once
from coldstep.model import Location
from coldstep_viewers.report import html, markdown
from coldstep_viewers.report.answers import head, numbers
from coldstep_viewers.report.terminal import render

TRACES = sorted((Path(__file__).parents[2] / "traces").glob("*.pftrace"))
PLACE = Location("train.py", 7, "main")


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_every_report_has_the_answer_at_its_top(path: Path) -> None:
    trace = coldstep.load(path)
    assert len(trace.answers) <= MOST
    once = {row.id for row in trace.findings if is_paid_once(row)}
    going_on = [row.cost_ns for row in trace.answers if row.finding not in once]
    assert going_on == sorted(going_on, reverse=True)
    title = "What to change" if trace.answers else "Nothing to change"
    lines = render(trace, 100).split("\n")
    at = next(at for at, line in enumerate(lines, 1) if line.startswith(title))
    assert at <= 12
    for text in (markdown.render(trace), html.page(trace)):
        assert text.index(title) < text.index("Where the time went")
    mentioned = {row.finding for row in trace.answers} | {id_ for row in trace.answers for id_ in row.also}
    assert len(mentioned) == sum(1 + len(row.also) for row in trace.answers), "a finding is in one answer"


def test_a_break_and_what_follows_it_are_one_answer_and_the_advice_is_printed_once() -> None:
    trace = coldstep.load(next(path for path in TRACES if path.stem == "torch_train"))
    first = trace.answers[0]
    assert first.text.startswith("Graph break in forward")
    assert not first.saves
    again = next(row for row in trace.answers if row.text.startswith("tail recompiled 3 times"))
    assert not again.saves  # of three compiles two are spared by an open size, whose own compile is dearer
    assert {row.kind for row in trace.findings if row.id in again.also} == {"recompile"}
    report, whole = render(trace, 100), render(trace, 100, every=True)
    words = "Do not call torch.compiler.reset() between steps."
    assert report.count(words) == 1
    assert whole.count(words) > 1
    assert ", see 3 above\n" in report
    assert numbers(trace)[first.finding] == 1


@pytest.mark.parametrize(("once_ms", "first"), [(2_000, "loop"), (9_000, "start")], ids=["dearer", "far dearer"])
def test_a_loop_that_pays_in_each_turn_comes_before_what_ran_once(tmp_path: Path, once_ms: int, first: str) -> None:
    generated_trace.write(tmp_path / "t.pftrace", steps=5, compiles=1)
    trace = coldstep.load(tmp_path / "t.pftrace")
    trace.findings = [
        finding(
            "eager_compiles", "start", severity="note", cost_ns=once_ms * 1_000_000, advice=ONE_JIT, refs=["c"] * 25
        ),
        finding("eager_compiles", "loop", severity="note", cost_ns=600_000_000, advice="Into one.", refs=["d"] * 12),
        finding("eager_compiles", "details", severity="note", cost_ns=700_000_000, advice="Into one.", refs=["e"] * 6),
    ]
    for number, row in enumerate(trace.findings):
        row.id = f"f{number}"
    texts = [row.text for row in answers(trace)]
    assert texts[0] == first
    assert {*texts} == {"loop", "start"}


@pytest.mark.parametrize(("cost_ms", "is_answer"), [(900, False), (1_800, True)])
def test_a_few_programs_of_an_initialisation_are_an_answer_where_they_are_dear(
    tmp_path: Path, cost_ms: int, is_answer: bool
) -> None:
    generated_trace.write(tmp_path / "t.pftrace", steps=5, compiles=1)
    trace = coldstep.load(tmp_path / "t.pftrace")
    start = finding(
        "eager_compiles", "start", severity="note", cost_ns=cost_ms * 1_000_000, advice=ONE_JIT, refs=["c"] * 11
    )
    trace.findings = [start]
    assert bool(answers(trace)) == is_answer


def test_a_compile_whose_error_ended_the_run_comes_first(tmp_path: Path) -> None:
    generated_trace.write(tmp_path / "t.pftrace", steps=5, compiles=1)
    trace = coldstep.load(tmp_path / "t.pftrace")
    trace.details[trace.compiles[0].id].error = "IndexError: no static integer\nmore"
    trace.findings = [
        finding("eager_compiles", "loop", severity="note", cost_ns=600_000_000, advice="Into one.", refs=["d"] * 12),
        finding("failed_compile", "failed", severity="error", cost_ns=1_000_000, refs=[trace.compiles[0].id]),
    ]
    for number, row in enumerate(trace.findings):
        row.id = f"f{number}"
    assert [row.text for row in answers(trace)] == ["loop", "failed"]
    trace.run.error = "IndexError: no static integer\nmore"
    assert [row.text for row in answers(trace)] == ["failed", "loop"]


def test_what_keeps_torch_compile_from_compiling_anything_comes_before_what_that_compiles_again(tmp_path: Path) -> None:
    generated_trace.write(tmp_path / "t.pftrace", steps=5, compiles=1)
    trace = coldstep.load(tmp_path / "t.pftrace")
    trace.findings = [
        finding("recompile", "again", cost_ns=6_000_000_000, advice="Keep it the same.", refs=["d"]),
        finding("graph_break", "broken", cost_ns=2_000_000_000, advice="Compile the model.", refs=["c", "b"]),
        finding("silent_eager", f"{NO_GRAPH}: forward runs eagerly", advice="Compile less.", refs=["c"]),
    ]
    for number, row in enumerate(trace.findings):
        row.id = f"f{number}"
    assert [row.text for row in answers(trace)] == ["again", "broken"]  # JAX compiled, too
    for compile_ in trace.compiles:
        compile_.stack = "dynamo"
    assert [row.text for row in answers(trace)] == ["broken", "again"]
    del trace.findings[2]
    assert [row.text for row in answers(trace)] == ["again", "broken"]


def test_what_a_cache_does_not_keep_comes_behind_what_compiles_again_in_the_steps(tmp_path: Path) -> None:
    generated_trace.write(tmp_path / "t.pftrace", steps=5, compiles=1)
    trace = coldstep.load(tmp_path / "t.pftrace")
    trace.findings = [
        finding("cache_miss", "not kept", severity="note", cost_ns=5_000_000_000, advice="Keep it.", refs=["c"]),
        finding("recompile", "again", cost_ns=600_000_000, advice="Keep it the same.", refs=["d"]),
    ]
    for number, row in enumerate(trace.findings):
        row.id = f"f{number}"
    assert [row.text for row in answers(trace)] == ["again", "not kept"]


def test_where_nothing_needs_a_change_that_is_the_first_sentence(tmp_path: Path) -> None:
    generated_trace.write(tmp_path / "t.pftrace", steps=5, compiles=1)
    trace = coldstep.load(tmp_path / "t.pftrace")
    assert trace.answers == []
    assert head(trace).title.startswith("Nothing to change: 1 compile, none of them a recompile")
    broken = coldstep.load(next(path for path in TRACES if path.stem == "torch_train")).graph_breaks[0]
    trace.graph_breaks.append(broken)
    assert head(trace).title.startswith("Nothing to change: 1 compile, none of them a recompile, and 1 graph break")


def test_what_a_library_compiled_is_not_called_nothing(tmp_path: Path) -> None:
    generated_trace.write(tmp_path / "t.pftrace", steps=5, compiles=1)
    trace = coldstep.load(tmp_path / "t.pftrace")
    trace.compiles[0].origin = "library"
    assert head(trace).title == "Nothing to change: nothing of the program's own compiled"
    trace.compiles.clear()
    assert head(trace).title == "Nothing to change: nothing compiled"


# --- code that is offered -----------------------------------------------------------------------------------------

HOSTILE = ("x\nimport os", "__import__('os').system('x')", "x; y", "x if y else z", "lambda: 0", "[a for a in b]",
           "x\\", "(x := 1)", "f(x)", "x" * 201, "", "x.y()", "{1: 2}")  # fmt: skip
PLAIN = ("x", "batch['tokens']", "self.model.scale", "cfg.sizes[0]", "0.5", "-1", "'relu'", "None")


@pytest.mark.parametrize("text", HOSTILE)
def test_what_a_trace_says_enters_no_code_unless_it_is_plain(text: str) -> None:
    assert not is_plain(text)
    row = Row("{argument} varies.", above="mark({expression}{rest})", environment={"SOURCES": "{sources}"})
    names = {"argument": text, "rest": f"[{text}]" if text else "()", "sources": text}
    call = find_call("step(x)", "x", ["x"], ["step"])
    made = remedies(row, Case("a", names, Place(PLACE, call)))
    assert [each.code for each in made] == [""]
    assert [each.environment for each in made] == [{}]


@pytest.mark.parametrize("text", PLAIN)
def test_plain_text_is_a_name_an_attribute_an_entry_or_a_literal(text: str) -> None:
    assert is_plain(text)


def test_a_line_of_a_trace_is_never_code_as_a_whole() -> None:
    assert with_keyword("@evil(__import__('os').system('x'))", "a=[1]") == ""
    assert with_keyword("@evil()(x)", "a=[1]") == ""
    row = Row("Pass it as a tensor.", above="{expression} = torch.as_tensor({expression})", each=True)
    for line, code in (
        ("loss = step(x, rate); import os", "rate = torch.as_tensor(rate)"),
        ("print(step(x, scale=rate).item())", "rate = torch.as_tensor(rate)"),
        ("for y in step(x, rate):", "rate = torch.as_tensor(rate)"),
        ("loss = step(x, 0.1 * rate)", ""),
    ):
        call = find_call(line, "scale", ["x", "scale"], ["step"])
        assert [each.code for each in remedies(row, Case("a", {}, Place(PLACE, call)))] == [code]
        assert [each.code for each in remedies(row, Case("a", {}, Place(PLACE, call, only=False)))] == [""]
    for line in ("step(x, *rest)", "step(a, b) + step(c, d)", "step(x,", "y = other"):
        assert find_call(line, "scale", ["x", "scale"], ["step"]) is None


def test_a_statement_stands_above_the_line_where_it_names_the_object_that_is_handed_over() -> None:
    row = Row("Mark it.", above="mark({expression}{rest}, {dim})")
    names = {"rest": "", "dim": "0"}
    for line, code in (
        ("y = step(batch['x'])", "mark(batch['x'], 0)"),
        ("y = step(x[:, :-1])", ""),  # another tensor each time
        ("y = step(load())", ""),
        ("elif step(x):", ""),
        ("while step(x):", ""),
    ):
        call = find_call(line.replace("elif", "if"), "x", ["x"], ["step"])
        if line.startswith("elif"):
            call = find_call(line, "x", ["x"], ["step"])
        assert [each.code for each in remedies(row, Case("a", names, Place(PLACE, call)))] == [code]
    [made] = remedies(row, Case("a", names, Place(PLACE, find_call("y = step(x)", "x", ["x"], ["step"]))))
    assert advice([made]) == "Mark it. Put above (train.py:7): mark(x, 0)"


def test_a_remedy_of_several_lines_is_shown_with_those_that_it_replaces() -> None:
    row = Row("Make it once.", instead="{statement}", changes="rounding")
    written = "optimizer = make()\nfor seed in seeds:\n    train(optimizer)  # ~~~"
    [made] = remedies(row, Case("a", {"statement": written}, Place(PLACE, lines=3)))
    assert (made.put, made.lines, followed("\n" * 6 + "    a\n    b\n    c\nd", made).split("\n")[6:]) == (
        "instead",
        3,
        ["    optimizer = make()", "    for seed in seeds:", "        train(optimizer)  # ~~~", "d"],
    )
    code = "\n    optimizer = make()\n    for seed in seeds:\n        train(optimizer)  # ~~~"
    words = f"Write this instead of lines 7-9 (train.py:7):{code}"
    assert advice([made]) == f"Make it once. It changes results within rounding. {words}"
    trace = next(trace for path in TRACES if (trace := coldstep.load(path)).answers)
    finding = next(row for row in trace.findings if row.id == trace.answers[0].finding)
    finding.remedies = [made]
    assert re.search(r"(\n *)    for seed in seeds: *\1        train\(optimizer\)  # ~~~", render(trace, 100))
    for text in (MarkdownIt().render(markdown.render(trace)), html.page(trace)):
        assert "optimizer = make()\n" in text
        assert "    train(optimizer)  # ~~~\n" in text or "    train(optimizer)  # ~~~</p>" in text


def test_parameters_and_decorators_are_read_from_their_lines() -> None:
    assert parameters("def step(x, scale=1, *, mask=None):") == ["x", "scale", "mask"]
    assert parameters("async def forward(self, x):") == ["x"]
    assert parameters("def step(x, *rest):") is None
    assert parameters("def step(x,") is None
    assert with_keyword("@tf.function", "a=[1]") == "@tf.function(a=[1])"
    assert with_keyword("@tf.function(jit_compile=True)", "a=[1]") == "@tf.function(jit_compile=True, a=[1])"
    assert with_keyword("@tf.function(a=[2])", "a=[1]") == ""
    assert with_keyword("@tf.function(**options)", "a=[1]") == ""
    assert with_keyword("x = 1", "a=[1]") == ""


def test_a_remedys_id_is_that_of_its_stack_and_cause() -> None:
    ids = {row.id for path in TRACES for finding in coldstep.load(path).findings for row in finding.remedies}
    assert {"torch.shape:x", "torch.shape:x:environment", "jax.shape:batch"} <= ids
    assert all(re.fullmatch(r"[\w.]+(:.*)?", each) for each in ids)


@pytest.mark.parametrize(
    ("line", "statement"),
    [
        ("model = torch.compile(model)", "model.compile()"),
        ('model = torch.compile(model, mode="default", dynamic=True)', "model.compile(mode='default', dynamic=True)"),
        ("model = torch.compile(model, backend=names.backend)", "model.compile(backend=names.backend)"),
        ("self.model = torch.compile(self.model)", "self.model.compile()"),
        ("torch.compile(self.model, dynamic=True)", "self.model.compile(dynamic=True)"),
        ("torch.compile(models[steal()])", ""),
        ("return torch.compile(model)", ""),
        ("model = torch.compile(model, backend=steal())", ""),
        ("model = torch.compile(model, **options)", ""),
        ("model = torch.compile(model, fullgraph)", ""),
        ("fast = torch.compile(model)", "model.compile()\nfast = model"),
        ("self.fast = torch.compile(self.net, mode='x')", "self.net.compile(mode='x')\nself.fast = self.net"),
        ("fast, slow = torch.compile(model), model", ""),
        ("model = compile(model)", ""),
        ("model = torch.compile(model); steal()", ""),
        ("model = torch.compile(make(model))", ""),
        ("model = torch.compile(model", ""),
    ],
)
def test_a_model_is_compiled_in_place_by_plain_parts_alone(line: str, statement: str) -> None:
    made = compiled(line)
    assert (made.in_place() if made is not None else "") == statement


def test_what_is_called_gets_the_place_of_what_was_compiled() -> None:
    whole = compiled("self.model = torch.compile(self.model, dynamic=True)")
    dropped = compiled("torch.compile(step)")
    assert whole is not None
    assert dropped is not None
    assert whole.assigned("forward") == "self.model.forward = torch.compile(self.model.forward, dynamic=True)"
    assert dropped.assigned() == "step = torch.compile(step)"
    assert (whole.is_dropped, dropped.is_dropped) == (False, True)
    aside = compiled("fast = torch.compile(model)")
    assert aside is not None
    assert aside.assigned("forward") == "model.forward = torch.compile(model.forward)\nfast = model"


@pytest.mark.parametrize(
    ("line", "made"),
    [
        ("self.fast = torch.compile(self.f, **options)", "self.fast = self.f = torch.compile(self.f, **options)"),
        ("self.f = torch.compile(self.f)", ""),
        ("self.fast = torch.compile(lambda x: x)", ""),
        ("fast = torch.compile(f)(x)", ""),
    ],
)
def test_what_is_kept_beside_gets_the_place_of_what_was_compiled(line: str, made: str) -> None:
    assert kept_beside(line)[1] == made


def test_statements_of_a_row_need_all_their_names() -> None:
    begin, instead = Row("text", above="limit = {limit}"), Row("text", instead="{statement}")
    assert [each.code for each in remedies(begin, Case("a", {"limit": "64"}, Place(PLACE)))] == ["limit = 64"]
    assert [each.put for each in remedies(instead, Case("a", {"statement": "m.compile()"}, Place(PLACE)))] == [
        "instead"
    ]
    for row in (begin, instead):
        [made] = remedies(row, Case("a", {"limit": "", "statement": ""}, Place(PLACE)))
        assert (made.code, made.location) == ("", None)


def test_a_builtins_call_around_it_is_not_the_compiled_function() -> None:
    call = find_call("print('value', repr(net(latents).mean().item()))", "input", ["input"], [])
    assert call is not None
    assert call.expression == "latents"


@pytest.mark.parametrize("line", ["x = f(__import__('os'))", "x = f(y); z()", "x = f(y)[g()]", "return f(y)", "f(*y)"])
def test_a_call_is_rewritten_only_where_all_of_its_line_is_plain(line: str) -> None:
    assert edits.with_argument(line, "y", "detach") == ""
    assert edits.with_callee(line, "_orig_mod") == ""
    assert edits.plain_assignment(line) == ""


def test_a_rewritten_line_is_its_statement_and_no_more() -> None:
    assert edits.with_argument("out = step(x, mask=y)  # x", "x", "detach") == "out = step(x.detach(), mask=y)"
    assert edits.with_callee("model(batches[0])", "_orig_mod") == "model._orig_mod(batches[0])"
    assert edits.plain_assignment("body.trainable = False  # f()") == "body.trainable = False"


@pytest.mark.parametrize("known_by", ["other(lr:text)", "train(lr:text,f():id)", "train(lr:eval)", "", "train(lr"])
def test_a_function_is_kept_only_by_names_that_its_maker_has(known_by: str) -> None:
    assert edits.kept("return jit(step)(x)", "step", "train", known_by) == ""


def test_a_function_is_kept_by_what_it_captures() -> None:
    made = edits.kept("return jit(step)(x)", "step", "train", "train(lr:text,body:object,ws:members)")
    assert made == "step = vars(train).setdefault(('step', repr(lr), body, *map(id, ws),), step)"
    assert edits.kept("return jit(step)(x)", "step", "train", "train()")
    assert not edits.kept("return jit(other)(x)", "step", "train", "train()")


def test_a_loop_that_what_compiled_again_holds_is_told_below_in_full() -> None:
    trace = coldstep.load(next(path for path in TRACES if path.stem == "torch_train"))
    answer = next(row for row in trace.answers if row.saves)
    first = next(row for row in trace.findings if row.id == answer.finding)
    again = next(row for row in trace.recompiles if row.id in first.refs)
    loop = replace(first, id="loop", kind="unrolled", severity="note", text="It holds each turn", refs=[again.compile])
    whole = replace(trace, findings=[*trace.findings, loop], answers=[replace(answer, also=[*answer.also, "loop"])])
    assert "loop" not in numbers(whole)
    assert "It holds each turn" in render(whole)


def test_graph_breaks_that_are_alike_at_one_line_are_one_answer_that_counts_both() -> None:
    trace = coldstep.load(next(path for path in TRACES if path.stem == "torch_train"))
    first = next(row for row in trace.findings if row.kind == "graph_break" and row.cost_ns)
    broke = next(row for row in trace.graph_breaks if row.id in first.refs)
    first.text = first.text.replace(broke.function, f"{broke.function} (wrapper)")
    other = replace(broke, id="other", count=3, compiles=[])
    text = first.text.replace(f", {broke.count} times", ", 3 times")
    again = replace(first, id="again", refs=["other"], text=text, cost_ns=first.cost_ns - 1)
    rows = answers(replace(trace, graph_breaks=[*trace.graph_breaks, other], findings=[*trace.findings, again]))
    [answer] = [row for row in rows if first.id in (row.finding, *row.also)]
    assert "again" in answer.also
    assert f"(wrapper) ({broke.kind}), {broke.count + 3} times" in answer.text
    assert answer.cost_ns >= 2 * first.cost_ns - 1
