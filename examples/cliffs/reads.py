"""A step of n parts: the host reads a value after each of them, or once at the end."""

from __future__ import annotations

from typing import Any

from benchmarks.study.program import Work
from examples.cliffs.stacks import Stack

WIDTH = 128


def work(stack: Stack, way: str, n: int) -> Work:
    x = stack.xp.ones((WIDTH, WIDTH)) / WIDTH

    def part(x: Any) -> Any:
        return stack.xp.tanh(x @ x) + 0.01

    def step(x: Any, part: Any = part) -> Any:
        total = 0.0
        for _ in range(n):
            x = part(x)
            total += x.sum().item() if way == "each" else 0.0
        return x * (total or x.sum().item())

    if stack.name == "jax":  # a jitted function cannot read: its parts are jitted
        jitted = stack.compiled(part)
        return Work(lambda: step(x, jitted), lambda: step(x))
    return Work.of(stack.compiled(step), step, x)
