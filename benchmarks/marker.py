"""What coldstep's hook on torch_xla's step marker costs on a step that compiles nothing.

`make bench`, in .venv-xla. Counted: CPU nanoseconds of the step's own thread in the hooked marker, less those in
torch_xla's own.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import pages
from overhead import WARM, tracing

import coldstep

STEPS = 500


class Timed:
    """Calls something, and adds up the CPU time of it."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call
        self.ns = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        before = time.thread_time_ns()
        try:
            return self._call(*args, **kwargs)
        finally:
            self.ns += time.thread_time_ns() - before


def hooked_ns(marked: bool) -> list[int]:
    """What each of `STEPS` steady steps costs, with the program's marks or, without, as steps that are its syncs."""
    import torch
    import torch_xla

    xlac = torch_xla._XLAC
    model = torch.nn.Linear(64, 64).to(torch_xla.device())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.ones(16, 64).to(torch_xla.device())
    theirs = xlac._xla_step_marker

    def train() -> None:
        optimizer.zero_grad()
        model(x).pow(2).sum().backward()
        optimizer.step()
        torch_xla.sync()

    samples = []
    xlac._xla_step_marker = inner = Timed(theirs)
    try:
        with tracing():
            hook = xlac._xla_step_marker
            xlac._xla_step_marker = outer = Timed(hook)
            for _ in range(WARM + STEPS):
                before = outer.ns - inner.ns
                if marked:
                    with coldstep.step():
                        train()
                else:
                    train()
                samples.append(outer.ns - inner.ns - before)
            xlac._xla_step_marker = hook
    finally:
        xlac._xla_step_marker = theirs
    return samples[WARM:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", action="store_true", help="put it into docs/evidence/costs.md")
    options = parser.parse_args()
    os.environ.setdefault("PJRT_DEVICE", "CPU")
    lines = ["torch_xla's step marker, CPU per steady step (quartiles)                 goal"]
    for title, marked in (("steps marked by the program", True), ("syncs that are the steps", False)):
        low, median, high = statistics.quantiles(hooked_ns(marked), n=4)
        lines.append(f"  {title:35}{median / 1e3:6.1f} µs   ({low / 1e3:.1f} - {high / 1e3:.1f})       ≤ 50 µs")
    pages.show(lines, "Of torch_xla's step marker" if options.keep else None)


if __name__ == "__main__":
    main()
