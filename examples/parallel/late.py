"""Training in ranks, the last of which sleeps for 3 s before its part of one step: who is seen to wait for whom."""

from __future__ import annotations

import os
import time
from itertools import count
from typing import Any

from benchmarks.study.program import Work
from examples.parallel import batches, tensor

SLEEPS_S, AT = 3, 5


def work(stack: str, way: str, n: int) -> Work:
    made = (tensor if way == "tensor" else batches).work(stack, way, n)
    steps = count()

    def step() -> Any:
        if next(steps) == AT and int(os.environ["RANK"]) == n - 1:
            time.sleep(SLEEPS_S)
        return made.step()

    return Work(step, made.eager, made.counted)
