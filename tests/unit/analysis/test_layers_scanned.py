"""A loop over layers is written as `scan` only where what it goes over can be stacked."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from rewritten import block_of, replaced

from coldstep.analysis.remedies.layers import as_scan

ALIKE = {f"layers[{number}]{rest}": "f32[4,4]" for number in range(3) for rest in ("['w']", "['b']")}


def scanned(head: str, body: str, inputs: Mapping[str, str] = ALIKE) -> str | None:
    text = f"def f(layers, x):\n{head}{body}    return x\n"
    block = block_of(text, 2)
    return replaced(text, as_scan(block, 2, inputs)) if block is not None else None


def test_a_loop_over_layers_that_are_alike_is_a_scan() -> None:
    made = scanned("    for layer in layers:\n", "        y = x @ layer['w']\n        x = x + y\n")
    assert made == (
        "def f(layers, x):\n    from jax import tree\n    from jax.lax import scan\n    from jax.numpy import stack\n"
        "    \n"
        "    def turn(x, layer):\n        y = x @ layer['w']\n        x = x + y\n        return x, None\n    \n"
        "    x, _ = scan(turn, x, tree.map(lambda *each: stack(each), *layers))\n    return x\n"
    )


def test_a_layer_of_several_parts_is_taken_apart_in_the_turn() -> None:
    inputs = {f"layers[{number}][{part}]": "f32[4]" for number in range(2) for part in (0, 1)}
    made = scanned("    for w, b in layers:\n", "        x = x * w + b\n", inputs)
    assert made is not None
    assert "    def turn(x, of_layer):\n        w, b = of_layer\n        x = x * w + b\n" in made


@pytest.mark.parametrize(
    "inputs",
    [{**ALIKE, "layers[0]['w']": "f32[8,4]"}, {**ALIKE, "layers[3]['w']": "f32[4,4]"}, {"params": "f32[4]"}, {}],
)
def test_layers_that_differ_or_are_not_seen_are_left_alone(inputs: dict[str, str]) -> None:
    assert scanned("    for layer in layers:\n", "        x = x @ layer['w']\n", inputs) is None


@pytest.mark.parametrize(
    "body",
    [
        "        x = x @ layer['w']\n        print(x)\n",
        "        x = x @ layer['w']\n        seen.append(x)\n",
        "        if flag:\n            x = x @ layer['w']\n",
        "        x, y = x @ layer['w'], x\n    x = x + y\n",
        "        x = x @ layer['w']\n    x = x + layer['b']\n",
    ],
)
def test_a_turn_that_does_more_is_left_alone(body: str) -> None:
    assert scanned("    for layer in layers:\n", body) is None
