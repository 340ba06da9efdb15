"""n equal blocks of a network, trained: unrolled, scanned over, or one block compiled as a region of its own."""

from __future__ import annotations

from typing import Any

from benchmarks.study.program import Work
from examples.cliffs.stacks import Stack

WIDTH, ROWS = 64, 8


def work(stack: Stack, way: str, n: int) -> Work:
    x, weights = stack.xp.ones((ROWS, WIDTH)), stack.xp.ones((n, WIDTH, WIDTH)) / WIDTH

    def block(x: Any, w: Any) -> Any:
        return x + stack.gelu(x @ w) @ w.T

    def unrolled(weights: Any, block: Any = block) -> Any:
        y = x
        for at in range(n):
            y = block(y, weights[at])
        return y.sum()

    def scanned(weights: Any) -> Any:
        return stack.scan(block, x, weights).sum()

    region = stack.compiled(block)
    loss = {"unrolled": unrolled, "scanned": scanned, "regional": lambda weights: unrolled(weights, region)}[way]
    if stack.name == "jax":
        import jax

        step = jax.grad(loss)
        # a region is called by what is not compiled itself
        return Work.of(step if way == "regional" else jax.jit(step), jax.grad(unrolled), weights)
    weights.requires_grad_()

    def gradient(loss: Any) -> Any:
        weights.grad = None
        loss(weights).backward()
        return weights.grad

    made = loss if way == "regional" else stack.compiled(loss)
    return Work(lambda: gradient(made), lambda: gradient(unrolled))
