"""What does not trace in JAX and breaks the graph in PyTorch: a boolean mask, a branch on a traced value, a value as a
size; and what to write instead of each."""

from __future__ import annotations

from benchmarks.study.program import Work
from examples.cliffs.stacks import Stack


def work(stack: Stack, way: str, n: int) -> Work:
    xp = stack.xp
    step = {
        "mask": lambda x: x[x > 1].sum(),
        "where": lambda x: xp.where(x > 1, x, 0).sum(),
        "branch": lambda x: x * 2 if x.sum() > 0 else x - 1,
        "cond": lambda x: stack.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, x),
        "size": lambda x: xp.zeros(int(x.max())) + x.sum(),
        "static": lambda x: xp.zeros(n - 1) + x.sum(),
    }[way]
    return Work.of(stack.compiled(step), step, xp.arange(float(n)))
