"""Runs one program of a study: `python -m benchmarks.study.program MODULE STACK WAY N`.

Its steps are marked; when they are over, the same is timed without a compiler, and printed as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from statistics import median
from time import perf_counter_ns, process_time_ns
from typing import Any

import coldstep

_STEPS, _EAGER_CALLS = 8, 5


@dataclass(frozen=True, slots=True)
class Work:
    """A step; what it returns is waited for."""

    step: Callable[[], Any]
    eager: Callable[[], Any] | None
    """The same without a compiler; None where it would show nothing."""
    counted: Callable[[], int] = lambda: 0
    """How often the framework itself counted a compile in this process."""
    measured: Callable[[], dict[str, Any]] = dict
    """What else a program has to show for itself."""

    @classmethod
    def of(cls, compiled: Callable[..., Any], function: Callable[..., Any], *arguments: Any) -> Work:
        """Of a compiled function, the function, and its arguments."""
        return cls(partial(compiled, *arguments), partial(function, *arguments))


def main(module: str, stack: str, way: str, n: str) -> None:
    """Run the steps; `work(stack, way, n)` of the module makes them, `stack(name)` beside it makes its stack."""
    made = import_module(f"{module.rpartition('.')[0]}.stacks").stack(stack)
    work: Work = import_module(module).work(made, way, int(n))
    took = []
    for _ in range(_STEPS):
        begin = process_time_ns()
        with coldstep.step("step"):
            coldstep.wait(work.step())
        took.append(process_time_ns() - begin)
    later = took[len(took) // 2 :]
    eager_ns = _timed(work.eager) if work.eager is not None else None
    counted = {os.environ.get("RANK", "0"): work.counted()}
    found = {"eager_ns": eager_ns, "cpu_ns": int(median(later)), "measured": work.measured()}
    sys.stdout.write(f"{json.dumps(found | {'counted': counted})}\n")  # at once: the ranks share it


def _timed(call: Callable[[], Any]) -> int:
    """Nanoseconds of a call, the first aside."""
    took = []
    for _ in range(_EAGER_CALLS + 1):
        begin = perf_counter_ns()
        coldstep.wait(call())
        took.append(perf_counter_ns() - begin)
    return int(median(took[1:]))


if __name__ == "__main__":
    main(*sys.argv[1:])
