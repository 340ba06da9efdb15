"""One function on n examples: a Python loop over them, `vmap`, and the same written for a batch by hand."""

from __future__ import annotations

from typing import Any

from benchmarks.study.program import Work
from examples.cliffs.stacks import Stack

WIDTH, ROWS = 64, 16


def work(stack: Stack, way: str, n: int) -> Work:
    xp = stack.xp
    x, w = xp.ones((n, ROWS, WIDTH)), xp.eye(WIDTH)

    def one(x: Any) -> Any:
        return stack.softmax(x @ w @ x.T) @ x

    def loop(xs: Any) -> Any:
        return xp.stack([one(xs[at]) for at in range(n)])

    def einsum(xs: Any) -> Any:
        scores = xp.einsum("bsk,brk->brs", xs, xp.einsum("brk,kl->brl", xs, w))
        return xp.einsum("brs,bsk->brk", stack.softmax(scores), xs)

    step = {"loop": loop, "vmap": stack.vmap(one), "einsum": einsum}[way]
    return Work.of(stack.compiled(step), step, x)
