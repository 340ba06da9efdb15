"""n branches on data: Python's `if`, which needs the value on the host; a traced `cond`; both sides and a `where`."""

from __future__ import annotations

from typing import Any

from benchmarks.study.program import Work
from examples.cliffs.stacks import Stack

WIDTH = 256


def work(stack: Stack, way: str, n: int) -> Work:
    xp = stack.xp
    x = xp.ones((WIDTH, WIDTH))

    def up(x: Any) -> Any:
        return xp.tanh(x @ x)

    def down(x: Any) -> Any:
        return xp.sin(x) - 1

    def if_(x: Any, up: Any = up, down: Any = down) -> Any:
        for _ in range(n):
            x = up(x) if x.sum() > 0 else down(x)
        return x

    def cond(x: Any) -> Any:
        for _ in range(n):
            x = stack.cond(x.sum() > 0, up, down, x)
        return x

    def where(x: Any) -> Any:
        for _ in range(n):
            x = xp.where(x.sum() > 0, up(x), down(x))
        return x

    if way == "if" and stack.name == "jax":  # which a jitted function cannot have: its two sides are jitted
        both = stack.compiled(up), stack.compiled(down)
        return Work(lambda: if_(x, *both), lambda: if_(x))
    step = {"if": if_, "cond": cond, "where": where}[way]
    return Work.of(stack.compiled(step), step, x)
