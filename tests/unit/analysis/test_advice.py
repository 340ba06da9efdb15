"""Advice that broke the program that followed it, or changed what it trains, is given no more."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest

import coldstep
from coldstep.analysis.advice import Seen, advise
from coldstep.analysis.breaks import _BY_REASON
from coldstep.analysis.patterns import pattern_of
from coldstep.analysis.recompiles.many_variants import _ONE_FOR_ALL
from coldstep.analysis.recompiles.rows import call_of
from coldstep.analysis.remedies import table
from coldstep.analysis.remedies.edits import find_call, makes, on_no_device, put_off
from coldstep.analysis.remedies.table import Place
from coldstep.analysis.rules import dynamo, jax, tensorflow, torch_xla
from coldstep.model import Change, Location, Recompile
from coldstep_viewers.catalogue.page_text import as_markdown
from coldstep_viewers.catalogue.pages import pages


def advice(
    cause: str, argument: str, before: str, after: str, *, is_open: bool | None = None, stack: str = "dynamo",
    inputs: dict[str, str] | None = None, evidence: list[str] | None = None, within: bool = False,
) -> str:  # fmt: skip
    trace = coldstep.load(Path(__file__).parents[2] / "traces/torch_train.pftrace")
    change = Change(argument, cause, before, after)
    fields = {"cause": cause, "argument": argument, "before": before, "after": after, "changes": [change]}
    known = vars_of(trace.recompiles[0]) | fields | {"pattern": None, "evidence": evidence or []}
    return table.advice(advise(trace, stack, Recompile(**known), Seen(is_open, placed=inputs or {}, within=within)))


def vars_of(row: Recompile) -> dict[str, object]:
    return {name: getattr(row, name) for name in row.__slots__}


def test_a_counter_is_not_kept_in_a_buffer_which_trains_with_wrong_gradients() -> None:
    said = advice("module_attribute", "self.calls", "1", "2")
    assert "out of the compiled function" in said
    assert not re.search("buffer|tensor", said)
    assert not re.search("buffer|tensor", _ONE_FOR_ALL.text)
    assert "self.register_buffer" not in as_markdown(pages())


def test_what_a_library_calls_with_another_size_is_not_to_be_marked() -> None:
    text = advice("shape", "x", "f32[4,8]", "f32[5,8]", within=True)
    assert text.startswith("PyTorch compiles again for another size: pad x")
    assert "mark" not in text


def test_a_function_that_is_new_each_time_is_made_once() -> None:
    assert advice("new_function", "f", "", "") == "Make and compile the function once, outside the loop."


def test_a_float_in_an_attribute_is_passed_as_a_tensor_and_dynamic_false_is_named() -> None:
    assert "as a tensor where it is only computed with" in advice("module_attribute", "self.scale", "1.5", "2.5")
    closed = advice("module_attribute", "self.scale", "1.5", "2.5", is_open=False)
    assert "dynamic=False" in closed
    assert "as a tensor where it is only computed with" in closed
    assert "dynamic=False" not in advice("module_attribute", "self.calls", "1", "2", is_open=False)


@pytest.mark.parametrize("static", [True, False])
def test_what_opens_sizes_is_offered_only_where_dynamic_false_closed_them(static: bool) -> None:
    trace = coldstep.load(Path(__file__).parents[2] / "traces/torch_train.pftrace")
    change = Change("x", "shape", "f32[4]", "f32[5]")
    fields = {"cause": "shape", "argument": "x", "before": "f32[4]", "after": "f32[5]", "changes": [change]}
    row = Recompile(**vars_of(trace.recompiles[0]) | fields | {"pattern": None, "evidence": []})
    given, *more = advise(trace, "dynamo", row, Seen(is_open=False, roots=frozenset({"x"}), static=static))
    assert ("dynamic=False" in given.text) == static
    assert [*given.environment, *(name for row in more for name in row.environment)] == (
        ["TORCH_COMPILE_DYNAMIC_SOURCES"] if static else []
    )
    assert ("code that needs the number" in given.text) == (not static)


def test_a_variable_that_holds_sources_keeps_them() -> None:
    trace = coldstep.load(Path(__file__).parents[2] / "traces/torch_train.pftrace")
    row = next(each for each in trace.recompiles if each.cause == "shape")
    seen = Seen(is_open=False, roots=frozenset({"x"}), static=True, sources="L['self'].n")
    *_, by_environment = advise(trace, "dynamo", row, seen)
    assert by_environment.environment == {"TORCH_COMPILE_DYNAMIC_SOURCES": "L['self'].n,L['x']:0"}
    seen = Seen(is_open=False, roots=frozenset({"x"}), static=True, sources="L['x']:0")
    assert [each for each in advise(trace, "dynamo", row, seen) if each.environment] == []


@pytest.mark.parametrize(
    ("argument", "before", "after", "variables"),
    [
        ("x", "f32[1,4]", "f32[2,4]", ["TORCH_COMPILE_UNBACKED_SOURCES"]),
        ("batch['x']", "f32[1,4]", "f32[2,4]", ["TORCH_COMPILE_UNBACKED_SOURCES"]),
        ("cache.key", "f32[1,4]", "f32[2,4]", []),  # its value grows with it, and the guard does not name that
        ("cache.key", "size 0 at dimension 2", "size 1 at dimension 2", []),
        ("batch['x'].data", "f32[1,4]", "f32[2,4]", []),
        ("self.keys", "f32[1,4]", "f32[2,4]", []),
    ],
)
def test_no_variable_opens_one_array_of_an_object_that_may_hold_more(
    argument: str, before: str, after: str, variables: list[str]
) -> None:
    trace = coldstep.load(Path(__file__).parents[2] / "traces/torch_train.pftrace")
    change = Change(argument, "shape", before, after)
    fields = {"cause": "shape", "argument": argument, "before": before, "after": after, "changes": [change]}
    row = Recompile(**vars_of(trace.recompiles[0]) | fields | {"pattern": None, "evidence": []})
    seen = Seen(roots=frozenset({"x", "batch", "cache", "self"}))
    for known in (seen, replace(seen, opened={argument: "0", "cache.value": "0"})):
        given = advise(trace, "dynamo", row, known)
        assert [name for row in given for name in row.environment] == variables


def test_what_a_wrapper_takes_by_keyword_is_opened_by_the_wrappers_name_for_it() -> None:
    trace = coldstep.load(Path(__file__).parents[2] / "traces/torch_train.pftrace")
    changes = [Change(name, "shape", "i64[2,16]", "i64[2,24]") for name in ("ids", "labels")]
    fields = {"cause": "shape", "argument": "ids", "before": "i64[2,16]", "after": "i64[2,24]", "changes": changes}
    evidence = ["0/0: tensor 'kwargs['ids']' size mismatch at index 1. expected 16, actual 24"]
    row = Recompile(**vars_of(trace.recompiles[0]) | fields | {"pattern": None, "evidence": evidence})
    *_, by_environment = advise(trace, "dynamo", row, Seen(roots=frozenset({"ids", "labels"})))
    assert by_environment.environment == {
        "TORCH_COMPILE_DYNAMIC_SOURCES": "L['kwargs']['ids']:1,L['kwargs']['labels']:1"
    }


def test_a_functions_own_parameters_are_not_in_its_rest() -> None:
    trace = coldstep.load(Path(__file__).parents[2] / "traces/torch_train.pftrace")
    changes = [Change(name, "shape", "f32[2,8]", "f32[2,9]") for name in ("x", "rest[0]", "m")]
    fields = {"cause": "shape", "argument": "x", "before": "f32[2,8]", "after": "f32[2,9]", "changes": changes}
    call = find_call("f(x, y, m=m)", "x", ["x", "rest", "m"], ["f"])
    [function] = ast.parse("def f(x, *rest, **kw): pass").body
    assert call is not None
    assert isinstance(function, ast.FunctionDef)
    seen = Seen(
        roots=frozenset({"x", "rest", "m"}), head=function.args, calls=dict.fromkeys(("x", "rest[0]", "m"), call)
    )
    for evidence in ([], ["0/0: tensor 'kw['m']' size mismatch at index 1. expected 8, actual 9"]):
        row = Recompile(**vars_of(trace.recompiles[0]) | fields | {"pattern": None, "evidence": evidence})
        *code, by_environment = advise(trace, "dynamo", row, seen)
        assert by_environment.environment == {"TORCH_COMPILE_DYNAMIC_SOURCES": "L['x']:1,L['rest'][0]:1,L['kw']['m']:1"}
        assert not any(row.code for row in code)


def test_what_pytorch_opened_beside_it_is_opened_too() -> None:
    trace = coldstep.load(Path(__file__).parents[2] / "traces/torch_train.pftrace")
    fields = {"cause": "module_attribute", "argument": "batch.size", "before": "4", "after": "5"}
    changes = [Change("batch.size", "module_attribute", "4", "5")]
    row = Recompile(**vars_of(trace.recompiles[0]) | fields | {"changes": changes, "pattern": None, "evidence": []})
    opened = {"batch.size": "value", "batch.x": "0, 1", "n": "value"}
    seen = Seen(is_open=True, roots=frozenset({"batch", "n"}), opened=opened)
    *_, by_environment = advise(trace, "dynamo", row, seen)
    assert by_environment.environment == {
        "TORCH_COMPILE_DYNAMIC_SOURCES": "L['batch'].size,L['batch'].x:0,L['batch'].x:1,L['n']"
    }
    nameless = replace(seen, opened=opened | {"elsewhere": "0"})
    assert not any(remedy.environment for remedy in advise(trace, "dynamo", row, nameless))


@pytest.mark.parametrize(
    ("opened", "code", "named"),
    [
        ({"x": "0"}, "torch._dynamo.maybe_mark_dynamic(x, 0)", "maybe_mark_dynamic(x, 0)"),
        ({"x": "0", "self.buffer": "1"}, "", "for each of x and self.buffer"),
        ({"x": "0", "n": "value"}, "", "maybe_mark_dynamic(x, 0)"),
    ],
)
def test_no_code_opens_less_than_pytorch_opened(opened: dict[str, str], code: str, named: str) -> None:
    trace = coldstep.load(Path(__file__).parents[2] / "traces/torch_train.pftrace")
    change = Change("x", "shape", "f32[8,3]", "f32[9,3]")
    fields = {"cause": "shape", "argument": "x", "before": change.before, "after": change.after, "changes": [change]}
    row = Recompile(**vars_of(trace.recompiles[0]) | fields | {"pattern": None, "evidence": []})
    call = find_call("f(x)", "x", ["x"], ["f"])
    assert call is not None
    place = Place(Location("train.py", 7, "<module>"), call, line="f(x)")
    seen = Seen(is_open=True, place=place, roots=frozenset({"x", "self"}), calls={"x": call}, opened=opened)
    given = advise(trace, "dynamo", row, seen)
    assert [row.code for row in given if not row.environment] == [code]
    assert named in given[0].text


@pytest.mark.parametrize("stack", ["dynamo", "jax", "tensorflow", "torch_xla"])
def test_another_rank_is_no_size_to_open_or_to_pad(stack: str) -> None:
    said = advice("shape", "x", "f32[50]", "f32[50,1]", stack=stack)
    assert "the same number of dimensions" in said
    assert "pad" not in said
    assert "pad" in advice("shape", "x", "f32[50]", "f32[60]", stack=stack)


@pytest.mark.parametrize("cause", ["python_scalar", "global", "closure"])
def test_a_number_is_passed_as_a_tensor_only_where_nothing_needs_the_number(cause: str) -> None:
    said = advice(cause, "n", "2", "3")
    assert "where it is only computed with" in said
    assert "range(), a slice or a shape" in said
    assert "optimizer" not in said
    assert "unless a slice or a shape needs the number" in advice(cause, "n", "2", "3", is_open=True)


@pytest.mark.parametrize(("values", "how"), [(2, "none"), (4, "none"), (5, "edit"), (12, "edit")])
def test_a_number_that_code_needs_is_lived_with_only_where_it_has_few_values(values: int, how: str) -> None:
    trace = coldstep.load(Path(__file__).parents[2] / "traces/torch_train.pftrace")
    evidence = ["0/0: i == 0  # x = self.heads[i](x)  # train.py:9 in forward"]
    fields = {"cause": "python_scalar", "argument": "i", "before": "0", "after": "1", "changes": []}
    row = Recompile(**vars_of(trace.recompiles[0]) | fields | {"pattern": None, "evidence": evidence})
    [given] = advise(trace, "dynamo", row, Seen(values=values))
    assert "The code needs the number i itself (x = self.heads[i](x))" in given.text
    assert given.how == how
    assert ("raise that limit" in given.text) == (how == "edit")


@pytest.mark.parametrize(
    ("code", "is_needed"),
    [
        ("return torch.softmax(logits / t, dim=-1)", False),
        ("return torch.stack([x * t, y]).sum()", False),
        ("return F.pad(x * t, (1, 1))", False),
        ("return torch.sum(x, t)", True),
        ("return x.sum(t)", True),
        ("return torch.full((2, 2), t)", True),
        ("return torch.cat([x, y[:t]])", True),
        ("return torch.mean(torch.zeros(t))", True),
        ("return F.pad(x, (t, t))", True),
        ("return torch.reshape(x, (t, -1))", True),
    ],
)
def test_what_a_function_of_torch_does_with_its_tensor_needs_no_number(code: str, is_needed: bool) -> None:
    said = advice("python_scalar", "t", "2", "3", evidence=[f"0/0: t == 2  # {code}  # train.py:9 in sample"])
    assert ("The code needs the number t itself" in said) == is_needed


def test_a_learning_rate_is_written_into_and_no_other_setting_is_called_one() -> None:
    rate = advice("python_scalar", "optimizer.param_groups[0]['lr']", "0.1", "0.05")
    assert ".fill_(" in rate
    assert "scheduler" in rate
    assert "lr=" not in advice("python_scalar", "optimizer.param_groups[0]['betas'][0]", "0.95", "0.9")


FEW = (("train", "eval"), ("b n d -> b d n", "b d n -> b n d"))


@pytest.mark.parametrize(("stack", "cause"), [("dynamo", "python_scalar"), ("jax", "static_argument")])
def test_a_text_is_no_choice_of_few_but_is_made_numbers_before_the_call(stack: str, cause: str) -> None:
    of_text = advice(cause, "text", "'the fed kept its rates'", "'the striker signed for two'", stack=stack)
    of_mode, of_pattern = (advice(cause, "mode", f"'{was}'", f"'{now}'", stack=stack) for was, now in FEW)
    assert "Turn text into an array of numbers before the call" in of_text
    assert "keep them few" in of_mode
    assert of_mode == of_pattern


@pytest.mark.parametrize("is_open", [True, None])
def test_a_mark_is_made_at_the_call_and_ends_no_program(is_open: bool | None) -> None:
    said = advice("shape", "x", "f32[8,4]", "f32[5,4]", is_open=is_open)
    assert "torch._dynamo.maybe_mark_dynamic(x, 0)" in said
    assert "where the function is called" in said


def test_gradients_need_both_and_no_step_of_the_optimizer_is_made_up() -> None:
    said = advice("gradient_state", "p.grad", "None", "f32[4]")
    assert "one backward before the first compiled step, and zero_grad(set_to_none=False) after it" in said
    assert "zero gradients" not in advice("optimizer_state", "optimizer.state", "{}", "{'step'}")


def test_of_a_print_and_of_a_logger_only_what_helps_is_said() -> None:
    said = {row.words.pattern: (row.own, row.library) for row in _BY_REASON}
    [logger] = [texts for words, texts in said.items() if "Logger" in words]
    [printing] = [texts for words, texts in said.items() if "`print`" in words]
    assert all("Logger.info" not in text and "ignore_logging_functions" in text for text in logger)
    assert all("and not a size" in text for text in printing)


def test_what_a_line_makes_anew_is_marked_by_a_name_of_its_own() -> None:
    trace = coldstep.load(Path(__file__).parents[2] / "traces/torch_train.pftrace")
    change = Change("tokens", "shape", "i64[8,32]", "i64[5,32]")
    fields = {"cause": "shape", "argument": "tokens", "before": change.before, "after": change.after}
    row = Recompile(**vars_of(trace.recompiles[0]) | fields | {"changes": [change], "pattern": None, "evidence": []})
    for line, words in (
        (
            "logits = model(tokens[:, :-1])",
            "name = tokens[:, :-1]; torch._dynamo.maybe_mark_dynamic(name, 0), and",
        ),
        ("logits = model(batch)", "called: torch._dynamo.maybe_mark_dynamic(batch, 0); or"),
    ):
        place = Place(Location("train.py", 7, "main"), find_call(line, "tokens", ["tokens"], []))
        advised = table.advice(advise(trace, "dynamo", row, Seen(True, place=place)))
        assert words in advised


def test_code_that_is_put_into_a_function_hides_no_module_from_the_lines_before_it() -> None:
    rows = [each for rules in (dynamo, jax, tensorflow, torch_xla) for each in rules.REMEDIES.values()]
    code = [text for row in rows for text in (row.above, row.over, row.under, row.instead)]
    code += [text for row in _BY_REASON for text in (row.above, row.instead)]
    code += [on_no_device("y = f(x)"), dynamo.CONFIG.format("verbose = True")]
    lines = [line for text in code for line in text.splitlines() if re.match(r"(import|from) ", line)]
    assert lines
    hidden = re.compile(r"\b(torch|jax|jnp|np|numpy|tf|tensorflow|logging)$")
    assert not [line for line in lines if hidden.search(line)]


@pytest.mark.parametrize(
    ("line", "made"),
    [
        ("loss, grads = jit(value_and_grad(loss_fn))(model)", "jit(value_and_grad(loss_fn))"),
        ("return self.jit(f)(x) + 1", "self.jit(f)"),
        ("y = f(x)", ""),
        ("y = f(x)(y) + g(x)(y)", ""),
        ("y = f(", ""),
    ],
)
def test_a_line_that_calls_what_it_has_made_is_known(line: str, made: str) -> None:
    assert makes(line) == made


@pytest.mark.parametrize(
    ("stack", "after", "code"),
    [
        ("jax", "f64[4]", 'x = x.astype("float32")'),
        ("jax", "f64[] weak", ""),
        ("dynamo", "f64[4]", "x = torch.as_tensor(x, dtype=torch.float32)"),
        ("tensorflow", "f64[4]", ""),
        ("torch_xla", "f64[4]", ""),
    ],
)
def test_an_argument_is_cast_only_by_what_its_stack_has(stack: str, after: str, code: str) -> None:
    trace = coldstep.load(Path(__file__).parents[2] / "traces/torch_train.pftrace")
    change = Change("x", "dtype", "f32[4]", after)
    fields = {"cause": "dtype", "argument": "x", "before": "f32[4]", "after": after, "changes": [change]}
    row = Recompile(**(vars_of(trace.recompiles[0]) | fields | {"pattern": None, "evidence": []}))
    place = Place(Location("train.py", 7, "<module>"), find_call("y = f(x)", "x", ["x"], ["f"]), line="y = f(x)")
    assert [row.code for row in advise(trace, stack, row, Seen(place=place))] == [code]


@pytest.mark.parametrize(
    ("line", "always"),
    [
        ("loss = f(x)", True),
        ("for batch in f(x):", True),
        ("losses = [f(x) for x in xs]", False),
        ("total = sum(f(x) for x in xs)", False),
        ("g = lambda x: f(x)", False),
        ("for x in xs: y = f(x)", False),
        ("def g(x): return f(x)", False),
    ],
)
def test_a_statement_stands_above_a_call_that_each_run_of_the_line_makes_once(line: str, always: bool) -> None:
    call = find_call(line, "x", ["x"], ["f"])
    assert call is not None
    assert call.takes_lines_above == always


def test_an_attribute_is_not_given_another_value() -> None:
    call = find_call("y = f(batch.obs)", "x", ["x"], ["f"])
    assert call is not None
    assert not call.may_assign("batch.obs")
    assert call.may_assign("batch['obs']")


@pytest.mark.parametrize(
    ("block", "line", "begins", "assigns"),
    [
        ("for x in xs:\n    step(x)\n", 2, True, True),
        ("for y in xs:\n    step(x)\n", 2, True, False),
        ("def train(x):\n    y = 1\n    step(x)\n", 3, True, True),
        ("def train():\n    for _ in range(3):\n        step(x)\n", 3, True, False),
        ("def train(x):\n    losses.append(\n        step(x)\n    )\n", 3, False, True),
        (None, 3, True, False),
    ],
)
def test_a_name_is_assigned_above_a_call_only_where_it_is_one_of_that_functions(
    block: str | None, line: int, begins: bool, assigns: bool
) -> None:
    trace = coldstep.load(Path(__file__).parents[2] / "traces/torch_train.pftrace")
    compile_ = next(row for row in trace.compiles if row.location is not None)
    assert compile_.location is not None
    compile_.function, compile_.inputs = "step", []
    trace.code[compile_.location.file, compile_.location.line] = "def step(x):"
    trace.code["main.py", line] = "step(x)"
    trace.blocks.clear()
    if block is not None:
        trace.blocks["main.py", 1] = block
    place = call_of(trace, compile_, "x", caller := Location("main.py", line, "train"), [caller])
    assert place.call is not None
    assert (place.location is not None, place.call.may_assign("x")) == (begins, assigns)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ('print("loss", loss)', "standard.print"),
        ('warnings.warn("old", stacklevel=2)', "standard_warnings.warn"),
        ("print(x.shape)", ""),
        ("print(*x)", ""),
        ('shown = print("loss")', ""),
        ('log.print("loss")', ""),
    ],
)
def test_only_what_pytorch_can_put_off_is_put_off(line: str, name: str) -> None:
    assert put_off(line) == name


def test_a_tensor_of_a_class_of_its_own_is_no_number_or_none() -> None:
    assert "x.as_subclass(torch.Tensor)" in advice("type", "x", "MetaTensor", "f32[2,1]")
    assert "as_subclass" not in advice("type", "x", "None", "f32[2,1]")
    assert "as_subclass" not in advice("type", "x", "Batch", "f32[2,1]")


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("Cfg(lr=0.1, steps=3)", "Cfg(lr=0.09, steps=3)", "Of cfg only lr changed, not steps: pass lr as"),
        ("C(a=1, b=-2.0, c='x')", "C(a=2, b=3.0, c='x')", "Of cfg only a and b changed, not c: pass a and b as"),
        ("Cfg(mode='a', steps=3)", "Cfg(mode='b', steps=3)", "give objects __eq__"),
        ("Cfg(lr=0.1)", "Cfg(lr=0.09)", "give objects __eq__"),
        ("Cfg(lr=0.1, steps=3)", "Other(lr=0.09, steps=3)", "give objects __eq__"),
        ("Renderer #1", "Renderer #2", "Where it holds arrays that do, make it within the jitted function"),
        ("Cfg(lr=0.1, at=<object at 0x7f>)", "Cfg(lr=0.2, at=<object at 0x7f>)", "give objects __eq__"),
    ],
)
def test_of_a_static_object_the_numbers_that_change_are_named(before: str, after: str, words: str) -> None:
    assert words in advice("static_argument", "cfg", before, after, stack="jax")


@pytest.mark.parametrize(
    ("stack", "inputs", "words"),
    [
        ("jax", {"xs[0]": "f32[3]", "xs[1]": "f32[3]", "y": "f32[]"}, "pass one array of them, jnp.stack(xs)"),
        (
            "tensorflow",
            {"xs[0]": "0.5", "xs[1]": "1.5"},
            "tf.stack(xs) (np.array of numbers), and leave its length open",
        ),
        ("jax", {"xs[0]": "f32[3]", "xs[1]": "f32[4]"}, "the same structure"),
        ("jax", {"xs[0]['w']": "f32[3]", "xs[1]['w']": "f32[3]"}, "the same structure"),
        ("jax", {}, "the same structure"),
    ],
)
def test_a_list_that_only_grows_is_one_array(stack: str, inputs: dict[str, str], words: str) -> None:
    assert words in advice("pytree", "xs", "list of 1", "list of 2", stack=stack, inputs=inputs)
    assert "the same structure" in advice("pytree", "xs", "list of 1", "tuple of 2", stack=stack, inputs=inputs)


@pytest.mark.parametrize("was", ["[]", "list of 1"])
def test_a_list_that_the_function_appends_to_is_appended_to_outside(was: str) -> None:
    evidence = ["0/0: len(self.seen) == 1  # self.seen.append(tokens.shape[0])  # train.py:18 in forward"]
    said = advice("container", "self.seen", was, "list of 2", evidence=evidence)
    assert said.startswith("Append to self.seen outside of the compiled function")
    assert "Where the function reads the list, too" in said
    elsewhere = ["0/0: len(self.seen) == 1  # for each in self.seen:  # train.py:18 in forward"]
    assert "Append" not in advice("container", "self.seen", was, "list of 2", evidence=elsewhere)


def test_a_function_that_some_calls_are_given_is_none_that_a_first_call_makes() -> None:
    trace = coldstep.load(Path(__file__).parents[2] / "traces/torch_train.pftrace")
    fields = {"cause": "type", "argument": "score_mod", "before": "None", "after": "<function soft>", "changes": []}
    row = Recompile(**vars_of(trace.recompiles[0]) | fields | {"pattern": None, "evidence": []})
    assert pattern_of(row, [row], trace) is None
    assert "until a first call makes it" not in advice("type", "score_mod", "None", "<function soft>")
    assert "variant of its own" in advice("type", "score_mod", "<function soft>", "None")
    assert "variant of its own" in advice("type", "act", "<builtin_function_or_method Functions.relu>", "None")


@pytest.mark.parametrize(("cause", "was", "now"), [("module_attribute", "'fit'", "None"), ("container", "{}", "{'a'}")])
def test_what_a_librarys_function_keeps_is_not_to_be_filled_or_passed_by_the_user(
    cause: str, was: str, now: str
) -> None:
    trace = coldstep.load(Path(__file__).parents[2] / "traces/torch_train.pftrace")
    fields = {"cause": cause, "argument": "self._results", "before": was, "after": now, "changes": []}
    row = Recompile(**vars_of(trace.recompiles[0]) | fields | {"pattern": None, "evidence": []})
    said = table.advice(advise(trace, "dynamo", row, Seen(library="LightningModule.log")))
    assert said.startswith("A library keeps self._results, ")
    assert "call LightningModule.log outside" in said


def test_a_number_of_a_librarys_that_is_a_symbol_has_no_variant_for_each_value() -> None:
    trace = coldstep.load(Path(__file__).parents[2] / "traces/torch_train.pftrace")
    fields = {"cause": "module_attribute", "argument": "self.slope", "before": "0.1", "after": "0.2", "changes": []}
    row = Recompile(**vars_of(trace.recompiles[0]) | fields | {"pattern": None, "evidence": []})
    advised = table.advice(advise(trace, "dynamo", row, Seen(is_open=True, library="Layer.forward")))
    assert "each value has a variant of its own" not in advised


@pytest.mark.parametrize(
    ("guard", "asked"),
    [
        ("0/1: 2 <= x.size()[0] <= 100  # if x.shape[0] > 100:  # train.py:6 in f", ", 2 <= x.size()[0] <= 100:"),
        ("0/1: (1 + (((((((-1) + min(1024, x.size()[0]) | (((-1) + min(1024, x.size()[0])) // 2)) | (((", " in: "),
        ("0/0: tensor 'x' size mismatch at index 0. expected 4, actual 5", None),
        ("0/0: y.size()[0] == x.size()[0]  # duck sizing added this equality", None),
    ],
)
def test_a_question_that_was_asked_of_a_size_comes_back_though_the_size_is_dynamic(
    guard: str, asked: str | None
) -> None:
    said = advice("shape", "x", "f32[4]", "f32[200]", is_open=True, evidence=[guard])
    assert ("happens once" in said) == (asked is None)
    assert (asked is None) or (asked in said and "a size with another answer compiles again" in said)


def test_a_number_in_a_mask_of_flex_attention_becomes_a_tensor_for_it_has_no_further_argument() -> None:
    evidence = ["0/0: block_mask.mask_mod.__defaults__[0] == 128"]
    said = advice("closure", "length", "128", "256", evidence=evidence)
    assert "torch.tensor(length, device=…)" in said
    assert "as an argument" not in said
    assert "as an argument" in advice("closure", "length", "128", "256")
