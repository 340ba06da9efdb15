"""n calls in a step: of a function made anew in each, or kept; with a constant of its own, or that as an argument."""

from __future__ import annotations

from typing import Any

from benchmarks.study.program import Work
from examples.cliffs.stacks import Stack

WIDTH = 64


def work(stack: Stack, way: str, n: int) -> Work:
    x = stack.xp.ones((WIDTH, WIDTH))

    def scaled(x: Any, by: Any) -> Any:
        return stack.xp.tanh(x * by) @ x

    def of(by: int) -> Any:
        return stack.compiled(lambda x: scaled(x, by))

    kept, baked = of(2), [of(at) for at in range(n)]
    argument, numbers = stack.compiled(scaled), [x[0, 0] * at for at in range(n)]
    step = {
        "fresh": lambda: [of(2)(x) for _ in range(n)],
        "kept": lambda: [kept(x) for _ in range(n)],
        "baked": lambda: [call(x) for call in baked],
        "argument": lambda: [argument(x, by) for by in numbers],
    }[way]
    return Work(step, lambda: [scaled(x, 2) for _ in range(n)])
