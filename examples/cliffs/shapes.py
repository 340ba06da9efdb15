"""Batches of n lengths in each step: as they come, marked dynamic, padded to the longest, padded to powers of two."""

from __future__ import annotations

from typing import Any

from benchmarks.study.program import Work
from examples.cliffs.stacks import Stack

WIDTH, SHORTEST, MORE = 64, 16, 3


def work(stack: Stack, way: str, n: int) -> Work:
    xp = stack.xp
    w = xp.eye(WIDTH)
    lengths = [SHORTEST + MORE * at for at in range(n)]
    padded = {"padded": lambda _: lengths[-1], "bucketed": lambda length: 1 << (length - 1).bit_length()}
    batches = [xp.ones((padded.get(way, int)(length), WIDTH)) for length in lengths]

    def score(x: Any) -> Any:
        return xp.sum(xp.tanh(x @ w))

    if stack.name == "torch":
        made = stack.compiled(score, dynamic=way == "dynamic")
    elif way == "dynamic":
        import tensorflow as tf

        made = stack.compiled(score, input_signature=[tf.TensorSpec([None, WIDTH], batches[0].dtype)])
    else:
        made = stack.compiled(score)
    return Work(lambda: [made(x) for x in batches], lambda: [score(x) for x in batches])
