"""The text of an optimizer of Optax' kind, by the functions that it is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from coldstep_collectors.optimizers import differing, optimizer_text


class Transformation(NamedTuple):
    init: Callable[..., Any]
    update: Callable[..., Any]


def scheduled(table: list[Any], rate: float) -> Transformation:
    def update(step: int) -> Any:
        return table[step], rate

    return Transformation(lambda parameters: parameters, update)


def test_a_table_that_holds_itself_or_is_long_is_not_looked_through() -> None:
    table: list[Any] = [0.1]
    table.append(table)
    assert optimizer_text(scheduled(table, 0.5)) == "Transformation(scheduled(rate=0.5))"
    functions = [scheduled([], number).update for number in range(1000)]
    assert optimizer_text(scheduled(functions, 0.5)) == "Transformation(scheduled(rate=0.5))"


def test_texts_of_the_same_functions_in_another_order_are_shown_whole() -> None:
    was, now = "Chain(clip(by=1.0), scale(by=-0.1))", "Chain(scale(by=-0.1), clip(by=1.0))"
    assert differing(was, now) == (was, now)
    assert differing(was, "Chain(clip(by=1.0), scale(by=-0.2))") == ("Chain(scale(by=-0.1))", "Chain(scale(by=-0.2))")
