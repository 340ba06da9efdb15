"""What `coldstep forecast` foretells of the plans for these sizes, and the processor time of updates by each."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable
from itertools import islice
from time import process_time_ns
from typing import Any

from benchmarks.study.endings import ROOT
from benchmarks.study.program import Work
from examples.flow_matching.molecules import RATE, SIZES, Trainer, batches, padded

import coldstep

_MOST = 3  # sizes of a plan


def work(stack: Callable[..., Trainer], way: str, n: int) -> Work:
    """A step is n rounds; in each, every batch is taken by every plan, in any order, and once more as it is."""
    foretold = _foretold("in_jax.py", "update") if stack.args == ("jax",) else _foretold("in_torch.py", "loss")
    trainer = stack(dynamic=False)
    plans = [plan for plan in foretold["plans"] if len(plan["buckets"]) <= _MOST and plan["kind"] != "dynamic"]
    ways = [SIZES, *(tuple(plan["buckets"]) for plan in plans), SIZES]
    given = [[padded(batch, to) for to in ways] for batch in islice(batches(SIZES), len(SIZES))]
    chance, rounds = random.Random(7), []

    def step() -> Any:
        value = None
        for _ in range(n):
            took = [0] * len(ways)
            for same in given:
                for at in chance.sample(range(len(ways)), len(ways)):  # what is called twice in a row is quicker
                    began = process_time_ns()
                    value = coldstep.wait(trainer.update(same[at], RATE))
                    took[at] += process_time_ns() - began
            rounds.append([each / took[0] for each in took[1:]])
        return value

    def measured() -> dict[str, Any]:
        return {"plans": foretold["plans"], "ways": ways[1:], "rounds": rounds[n:]}  # the first step compiles

    return Work(step, None, trainer.counted, measured)


def _foretold(file: str, function: str) -> Any:
    """By the command line, in a process that is not recorded."""
    path = f"examples/flow_matching/{file}"
    words = [sys.executable, "-m", "coldstep", "forecast", f"{path}:{function}", f"{path}:calls", "--format", "json"]
    return json.loads(subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
