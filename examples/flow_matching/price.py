"""What `coldstep forecast` foretells of the plans for these sizes, and the processor time of updates by each."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import islice
from time import process_time_ns
from typing import Any

from benchmarks.study.endings import ROOT
from benchmarks.study.program import Work
from examples.flow_matching.molecules import RATE, SIZES, Trainer, batches, padded

import coldstep

_MOST = 3  # sizes of a plan

Plan = dict[str, Any]


def work(stack: Callable[..., Trainer], way: str, n: int) -> Work:
    """A step is n rounds; in each, every batch is taken by every plan, in any order, and once more as it is."""
    by_size, by_steps = _foretold(*stack.args)
    trainer = stack(dynamic=False)
    padding = dict.fromkeys(to for plan in by_size["plans"] + by_steps["plans"] if (to := _padded_to(plan)))
    ways = [SIZES, *padding, SIZES]
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
        plans = {"by_size": by_size["plans"], "by_steps": by_steps["plans"], "work": by_steps["work"][0]}
        return plans | {"ways": ways[1:], "rounds": rounds[n:]}  # the first step compiles

    return Work(step, None, trainer.counted, measured)


def _padded_to(plan: Plan) -> tuple[int, ...]:
    """The sizes of a plan that pads to a few; of any other none."""
    return tuple(plan["buckets"]) if plan["kind"] in ("longest", "buckets") and len(plan["buckets"]) <= _MOST else ()


def _foretold(stack: str) -> Iterator[Any]:
    """By the command line, in other processes: without a trace, and with one of the program as it is."""
    path, function = ("in_jax.py", "update") if stack == "jax" else ("in_torch.py", "loss")
    path = f"examples/flow_matching/{path}"
    with tempfile.TemporaryDirectory(prefix="study-") as folder:
        trace = f"{folder}/as_it_is.pftrace"
        _coldstep("run", "-o", trace, "--no-live", "-m", "examples.flow_matching.as_it_is", stack)
        for more in ((), ("--from", trace)):
            made = json.loads(_coldstep("forecast", f"{path}:{function}", f"{path}:calls", *more, "--format", "json"))
            for plan in made["plans"]:
                del plan["code"]
            yield made


def _coldstep(*words: str) -> str:
    command = [sys.executable, "-m", "coldstep", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
