"""n products in a row: a Python loop, which the compiler is given unrolled, or an operation that loops."""

from __future__ import annotations

from typing import Any

from benchmarks.study.program import Work
from examples.cliffs.stacks import Stack

WIDTH, ROWS = 64, 8


def work(stack: Stack, way: str, n: int) -> Work:
    xp = stack.xp
    x, w, rows = xp.ones((ROWS, WIDTH)), xp.eye(WIDTH), xp.ones((n, 1))

    def body(x: Any, row: Any = None) -> Any:
        return xp.tanh(x @ w)

    def loop(x: Any) -> Any:
        for _ in range(n):
            x = body(x)
        return x

    def nested(x: Any) -> Any:
        for _ in range(n // 4):
            for _ in range(4):
                x = body(x)
        return x

    def fori(x: Any) -> Any:
        from jax import lax

        return lax.fori_loop(0, n, lambda _, x: body(x), x)

    step = {
        "loop": loop,
        "nested": nested,
        "scan": lambda x: stack.scan(body, x, rows),
        "fori": fori,
        "while": lambda x: stack.while_(body, n, x),
    }[way]
    return Work.of(stack.compiled(step), step, x)
