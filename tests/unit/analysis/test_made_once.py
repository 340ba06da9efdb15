"""An object that is made anew each time is made once, by the user's own lines, and only where that is the same."""

from __future__ import annotations

import pytest
from threads.judge import followed

from coldstep.analysis.remedies.blocks import block_around
from coldstep.analysis.remedies.made_once import made_once
from coldstep.model import Location, Remedy

LOOP = """for seed in range(4):
    model = Linear(seed)
    optimizer = Optimizer(model, adam(1e-2), wrt=Param)
    for _ in range(2):
        loss = train_step(model, optimizer)
"""
INDENTED = "def main():\n    first()\n" + "".join(f"    {line}\n" for line in LOOP.splitlines()) + "    last()\n"


def rewritten(text: str, line: int, argument: str, given: str, part_of: str | None = None) -> str | None:
    """The text as the remedy has it; None where there is none."""
    block = block_around({("train.py", 1): text}, Location("train.py", line, ""))
    made = made_once(block, line, argument, given, part_of) if block is not None else None
    if made is None:
        return None
    return followed(text, Remedy("x", "edit", "", {}, made.code, "instead", made.location, "nothing", made.lines))


@pytest.mark.parametrize(("text", "line"), [(LOOP, 5), (INDENTED, 7)])
def test_the_part_that_is_made_anew_is_made_before_the_loop(text: str, line: int) -> None:
    made = rewritten(text, line, "optimizer.tx", "optimizer", "Adam")
    assert made is not None
    indent = text[text.index("for") - 4 : text.index("for")] if line > 5 else ""
    assert f"{indent}one_optimizer_tx = adam(1e-2)\n{indent}for seed in range(4):\n" in made
    assert f"{indent}    optimizer = Optimizer(model, one_optimizer_tx, wrt=Param)\n" in made
    compile(made, "train.py", "exec")


def test_it_is_made_before_the_outermost_loop_that_has_no_part_in_it() -> None:
    text = "for size in sizes:\n    for _ in range(3):\n        rule = Rule(size)\n        step(rule)\n"
    made = rewritten(text, 4, "rule", "rule")
    before = text.replace("    for", "    one_rule = Rule(size)\n    for")
    assert made == before.replace("        rule = Rule(size)", "        rule = one_rule")


def test_what_is_handed_over_in_the_calls_own_line_is_made_before_the_loop() -> None:
    made = rewritten("while True:\n    step(x, Rule(size=2))\n", 2, "rule", "Rule(size=2)")
    assert made == "one_rule = Rule(size=2)\nwhile True:\n    step(x, one_rule)\n"


def test_a_function_of_a_module_keeps_what_its_first_call_made() -> None:
    text = "def fast(layer):\n    made = backend(compiler)\n    return torch.compile(layer, backend=made)\n"
    assert rewritten(text, 3, "backend", "made") == text.replace(
        "backend(compiler)", "vars(fast).setdefault('backend', backend(compiler))"
    )


@pytest.mark.parametrize(
    "text",
    [
        "for x in xs:\n    rule = Rule(x)\n    step(rule)\n",
        "for x in xs:\n    rate = 2\n    rule = Rule(rate)\n    step(rule)\n",
        "for x in xs:\n    c.rate = 2\n    rule = Rule(c)\n    step(rule)\n",
        "for x in xs:\n    c.update(2)\n    rule = Rule(c)\n    step(rule)\n",
        "for x in xs:\n    change(c)\n    rule = Rule(c)\n    step(rule)\n",
        "for x in xs:\n    if x:\n        rule = Rule(2)\n    step(rule)\n",
        "for x in xs:\n    rule = Rule(2)\n    rule = Rule(3)\n    step(rule)\n",
        "for x in xs:\n    rule = Rule(2)\n    rule.size = x\n    step(rule)\n",
        "for x in xs:\n    rule = Rule(random())\n    step(rule)\n",
        "for x in xs:\n    rule = Rule(next(sizes))\n    step(rule)\n",
        "for x in xs:\n    rule = jit(lambda y: y * rate)\n    step(rule)\n",
        "for x in xs:\n    rule = Rule([y for y in ys])\n    step(rule)\n",
        "for x in xs:\n    rule = (yield Rule(2))\n    step(rule)\n",
        "for x in xs:\n    one_rule = rule = Rule(2)\n    step(rule)\n",
        "rule = Rule(2)\n",
        "def f(rule):\n    step(rule)\n",
        "@cached\ndef f(x):\n    rule = Rule(2)\n    step(rule)\n",
        "def f(size):\n    rule = Rule(size)\n    step(rule)\n",
        "for x in xs: rule = Rule(2); step(rule)\n",
    ],
)
def test_what_may_be_another_the_next_time_stays_where_it_is(text: str) -> None:
    assert rewritten(text, text.count("\n"), "rule", "rule") is None


@pytest.mark.parametrize(
    ("made", "part_of"),
    [
        ("Held(zeros(x), Other())", "Rule"),  # the only one, but of another name
        ("Held(Rule(1), Rule(2))", "Rule"),
        ("Held(x, Rule(x))", "Rule"),
    ],
)
def test_of_an_object_that_holds_arrays_only_what_is_known_by_its_class_moves(made: str, part_of: str) -> None:
    text = f"for x in xs:\n    held = {made}\n    step(held)\n"
    assert rewritten(text, 3, "held", "held", part_of) is None
    good = rewritten("for x in xs:\n    held = Held(x, Rule(2))\n    step(held)\n", 3, "held", "held", "Rule")
    assert good == "one_rule = Rule(2)\nfor x in xs:\n    held = Held(x, one_rule)\n    step(held)\n"


@pytest.mark.parametrize(
    "text",
    [
        "for x in xs:\n    __import__('os').system('rm')\n    rule = Rule(2)\n    step(rule)\n",
        "for x in xs:\n    exec(x)\n    rule = Rule(2)\n    step(rule)\n",
        "for x in xs:\n    import os\n    rule = Rule(2)\n    step(rule)\n",
        "for x in xs:\n    f.__globals__\n    rule = Rule(2)\n    step(rule)\n",
        "for x in xs:\n    y = 1  # \x1b[2K\n    rule = Rule(2)\n    step(rule)\n",
        "for x in xs:\n    y = 1  # \u202e\n    rule = Rule(2)\n    step(rule)\n",
        "for x in xs:\n    rule = Rule(2)\n    step(rule)\nsteal()\n",
        "for x in xs:\n    rule = Rule(2)\n    step(rule)\n  steal()\n",
        "for x in xs:\n    rule = Rule(2\n    step(rule)\n",
        "for x in xs:\n\n    rule = Rule(2)\x00\n    step(rule)\n",
        "(" * 300 + ")" * 300 + "\n\n\nstep(rule)\n",
        "",
    ],
)
def test_a_strangers_source_enters_no_code(text: str) -> None:
    for line in range(1, 6):
        assert rewritten(text, line, "rule", "rule") is None


@pytest.mark.parametrize(
    "given", ["", "rule; steal()", "(rule", "rule.x", "Rule()", "x := rule", "*rule", "rule\nrule"]
)
def test_a_strangers_expression_finds_nothing(given: str) -> None:
    assert rewritten("for x in xs:\n    rule = Rule(2)\n    step(rule)\n", 3, "rule", given) is None
