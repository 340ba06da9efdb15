"""One model in one stack, in a process of its own: `python -m benchmarks.stack_wars.pair MODEL STACK …` writes its
trace, and beside it what the trace does not hold: losses, and memory against what stood before the model."""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import resource
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.stack_wars import STACKS

import coldstep

MODULES = {"jax": "jax", "tensorflow": "tensorflow", "tensorflow_xla": "tensorflow"}
"""By stack, which of the train_* modules has it; PyTorch's has all others."""
_M_MMAP_THRESHOLD, _LARGER_BYTES = -3, 1 << 20  # of malloc.h


@dataclass(slots=True)
class Row:
    """What became of one pair."""

    model: str
    stack: str
    size: str
    losses: list[float] = field(default_factory=list)
    limit_bytes: int | None = None
    """What the process might ask for."""
    before_bytes: int | None = None
    """Resident when the framework and its device stood, before the model."""
    peak_bytes: int | None = None
    """The most that was resident in a step after the trace, when `kept_bytes` had been given back and each larger block
    was given back as it was freed: what tracing holds, what the allocator keeps and what waits for Python's garbage
    collector is not the program's."""
    kept_bytes: int | None = None
    """What the allocator had kept of memory that was free."""
    ended: str = "ok"
    """ok, out_of_memory, too_long, failed."""
    why: str = ""
    """What ended it, where it did not end by itself."""


def main(words: list[str] | None = None) -> None:
    """As the command line; `words` in place of it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stack_wars.pair", description=__doc__)
    parser.add_argument("model")
    parser.add_argument("stack", choices=STACKS)
    parser.add_argument("size")
    parser.add_argument("trace", type=Path)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--memory", type=int, help="bytes that the process may ask for")
    parser.add_argument("--ir", action="store_true")
    options = parser.parse_args(words)
    if options.memory:
        resource.setrlimit(resource.RLIMIT_DATA, (options.memory, options.memory))
    os.environ.setdefault("PJRT_DEVICE", "CPU")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    row = Row(options.model, options.stack, options.size, limit_bytes=options.memory)
    try:
        with coldstep.trace(options.trace, ir=options.ir):
            step = train(row, options.steps)
        measure(row, step)
    except Exception as error:  # no row of an interrupted pair, so that it is run again
        row.ended, row.why = "failed", f"{type(error).__name__}: {error}"
        write(row, options.trace)
        raise
    write(row, options.trace)


def train(row: Row, steps: int) -> Callable[[], Any]:
    """So many steps, and what makes another; imports in here, so that the trace shows what importing a stack costs."""
    stacked = import_module(f"benchmarks.stack_wars.train_{MODULES.get(row.stack, 'torch')}")
    stacked.start(row.stack)
    row.before_bytes = _status("VmRSS")
    step = stacked.prepare(row.stack, row.model, row.size)
    for _ in range(steps):
        with coldstep.step(row.model):
            made = coldstep.wait(step())
            loss = float(made[-1])  # where torch_xla tells of a computation that failed
        row.losses.append(loss)
    return step


def measure(row: Row, step: Callable[[], Any]) -> None:
    """Two more steps, for the memory that the program itself holds in the second."""
    row.kept_bytes = _given_back()
    _give_back_at_once()
    # on a thread of its own, which takes nothing from the heap of the steps before
    with ThreadPoolExecutor(1) as other:
        other.submit(_wait_for, step).result()  # what a step leaves for the next is given back at once, too
        gc.collect()  # torch_xla's steps leave cycles, and arrays in them
        _given_back()
        Path("/proc/self/clear_refs").write_text("5")  # the most that was resident counts from here
        other.submit(_wait_for, step).result()
    row.peak_bytes = _status("VmHWM")


def _wait_for(step: Callable[[], Any]) -> None:
    float(step()[-1])


def _given_back() -> int | None:
    """Make the C library give back what is free; how much that was, None where it cannot."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    before = _status("VmRSS")
    if trim is None or before is None:
        return None
    trim(0)
    after = _status("VmRSS")
    return before - after if after is not None else None


def _give_back_at_once() -> None:
    """Make the C library give each larger block pages of its own from here on, where no heap has room for it: what a
    step frees in a heap leaves gaps that do not fit what is asked for next, and counts as held."""
    if (option := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        option(_M_MMAP_THRESHOLD, _LARGER_BYTES)


def write(row: Row, trace: Path) -> None:
    """The row, beside its trace."""
    trace.with_suffix(".json").write_text(json.dumps(asdict(row), indent=1) + "\n")


def read(trace: Path) -> Row:
    """What was written beside a trace."""
    return Row(**json.loads(trace.with_suffix(".json").read_text()))


def _status(field: str) -> int | None:
    """A size of this process, as Linux keeps it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    return None


if __name__ == "__main__":
    main()
