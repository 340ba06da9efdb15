"""Data parallel, one step with a batch of another size: everywhere, or in the last rank alone; or padded to it."""

from __future__ import annotations

import os

from benchmarks.study.program import Work
from examples.parallel import batches

MORE = 4


def work(stack: str, way: str, n: int) -> Work:
    is_padded = way == "padded"
    usual = "jit" if stack == "jax" else "ddp"
    is_other = not is_padded and (way != "one_rank" or int(os.environ["RANK"]) == n - 1)
    return batches.work(stack, usual if way in ("padded", "one_rank") else way, n, MORE if is_other else 0)
