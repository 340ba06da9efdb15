"""A class moves in front of the function that defines it only where it is the same there."""

from __future__ import annotations

import pytest
from rewritten import block_of, replaced

from coldstep.analysis.remedies.blocks import block_around
from coldstep.analysis.remedies.hoisted import class_above, object_above
from coldstep.model import Location

CLASS = "    class Double(Function):\n        def forward(ctx, x):\n            return 2 * x\n\n"
LONG = '"""a\nb"""'
METHOD = "class Net:\n    @checked\n    def forward(self, x):\n{class_}        y = {use}\n        return y\n"


def moved(text: str) -> str | None:
    lines = text.splitlines()
    line = next(at for at, each in enumerate(lines, 1) if each.strip().startswith("class Double"))
    first = 2 if lines[0] == "class Net:" else 1
    blocks = {("train.py", first): "".join(f"{each}\n" for each in lines[first - 1 :])}
    block = block_around(blocks, Location("train.py", line, ""))
    return replaced(text, class_above(block, line)) if block is not None else None


def indented(text: str) -> str:
    return "".join(f"    {line}".rstrip() + "\n" for line in text.splitlines())


def test_in_front_of_a_function_it_has_a_name_of_its_own() -> None:
    made = moved(f"@compiled\ndef f(x):\n{CLASS}    return Double.apply(x)\n")
    assert made == (
        "class _f_Double(Function):\n    def forward(ctx, x):\n        return 2 * x\n\n@compiled\ndef f(x):\n"
        "    return _f_Double.apply(x)\n"
    )


def test_in_front_of_a_method_it_is_an_attribute_of_the_class() -> None:
    made = moved(METHOD.format(class_=indented(CLASS), use="Double.apply(x) + Double.apply(é := x)"))
    assert made is not None
    assert "    class _forward_Double(Function):\n        def forward(ctx, x):\n" in made
    assert "    @checked\n    def forward(self, x):\n        y = self._forward_Double" in made
    assert "y = self._forward_Double.apply(x) + self._forward_Double.apply(é := x)\n" in made
    compile(made, "net.py", "exec")


@pytest.mark.parametrize(
    "text",
    [
        f"def f(x, Function):\n{CLASS}    return Double.apply(x)\n",
        f"def f(x):\n{CLASS}    Double = wrapped(Double)\n    return Double.apply(x)\n",
        f"def f(x):\n    if x:\n{indented(CLASS)}        return Double.apply(x)\n",
        f"def f(x):\n{CLASS.replace('2 * x', 'rate * x')}    rate = 2\n    return Double.apply(x)\n",
        f"def f(x):\n{CLASS.replace('2 * x', LONG)}    return Double.apply(x)\n",
        f"def f():\n{CLASS}",
        f"def f(x):\n{CLASS.replace('def forward(ctx, x)', 'def forward(ctx, x=RATE)')}    return Double.apply(x)\n",
        "def f(x):\n    class Double(Function):\n        values = []\n\n    return Double.apply(x)\n",
        "def f(x):\n    class Double(Function):\n        rate = RATE\n\n    return Double.apply(x)\n",
        f"def f(x):\n    @checked\n{CLASS}    return Double.apply(x)\n",
        METHOD.replace("self", "net").format(class_=indented(CLASS), use="Double.apply(x)"),
        METHOD.format(class_=indented(CLASS.replace("2 * x", "Double")), use="Double.apply(x)"),
    ],
)
def test_it_stays_where_it_would_be_another_or_the_function_would_be_empty(text: str) -> None:
    assert moved(text) is None


def made_above(line: str) -> str | None:
    text = f"@tf.function\ndef step(x):\n    rate = 0.1\n    {line}\n    return run(optimizer, x)\n"
    block = block_of(text, 4)
    return replaced(text, object_above(block, 4)) if block is not None else None


def test_an_object_is_made_in_front_of_the_function() -> None:
    assert made_above("optimizer = Adam(RATE)") == (
        "step_optimizer = Adam(RATE)\n\n\n@tf.function\ndef step(x):\n    rate = 0.1\n"
        "    optimizer = step_optimizer\n    return run(optimizer, x)\n"
    )
    for line in ("optimizer = Adam(rate)", "optimizer = Adam(x)", "optimizer, y = Adam(RATE)", "optimizer = RATE"):
        assert made_above(line) is None
