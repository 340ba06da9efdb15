"""What it costs to see what may be a program's steps: CPU nanoseconds of the program's own thread, per call.

`make bench`

Each form runs in processes of its own, in turn: "off" without coldstep's hooks for it, "on" with them, "marked" after
the first `coldstep.step()`. "null" is "off" once more: how far it is from "off" is how much of the rest is noise.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import pages

import coldstep
from coldstep.recording.options import Options
from coldstep.tracing import Block

FORMS = {"off": False, "null": False, "on": True, "marked": True}
CALLS, CHUNKS = 300, 40
GOALS = {
    "a jitted call": "≤ 2 µs",
    "an eager operation of JAX's": "≤ 5 %",
    "an optimizer's step": "≤ 4 µs",
    "a compiled call": "≤ 4 µs",
    "an eager operation of PyTorch's": "≤ 5 %",
}
"""How much more it may be with coldstep's hooks, where nothing is marked."""


def jax_loops() -> dict[str, Callable[[], object]]:
    """Calls of JAX: of a compiled function, and of operations by themselves."""
    import jax
    import jax.numpy as jnp

    update = jax.jit(lambda w, x: w + x)
    state, x = jnp.ones(8), jnp.ones(8)
    return {"a jitted call": lambda: update(state, x), "an eager operation of JAX's": lambda: jnp.add(state, x)}


def torch_loops() -> dict[str, Callable[[], object]]:
    """Calls of PyTorch: of an optimizer's step, of a compiled function, and of an operation by itself."""
    import torch

    weights = [torch.nn.Parameter(torch.ones(8)) for _ in range(4)]
    for weight in weights:
        weight.grad = torch.ones(8)
    optimizer = torch.optim.SGD(weights, lr=0.1)
    compiled = torch.compile(lambda x: x + 1, backend="eager")
    x = torch.ones(8)
    return {
        "an optimizer's step": optimizer.step,
        "a compiled call": lambda: compiled(x),
        "an eager operation of PyTorch's": lambda: x + 1,
    }


def per_call(call: Callable[[], object]) -> float:
    """CPU nanoseconds of this thread for one call: the median of many rows of calls."""
    for _ in range(CALLS):
        call()
    samples = []
    for _ in range(CHUNKS):
        begun = time.thread_time_ns()
        for _ in range(CALLS):
            call()
        samples.append((time.thread_time_ns() - begun) / CALLS)
    return statistics.median(samples)


def child(form: str) -> dict[str, float]:
    """One sample of everything, in this process."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        path = os.path.join(folder, "bench.pftrace")
        with Block(Options(path, device="off", infer=FORMS[form], live=False)):
            loops = jax_loops() | torch_loops()
            if form == "marked":
                with coldstep.step():
                    pass
            return {name: per_call(call) for name, call in loops.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keep", action="store_true", help="put it into docs/evidence/costs.md")
    parser.add_argument("--child", choices=FORMS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(child(options.child)))
        return
    found: dict[str, dict[str, list[float]]] = {}
    for turn in range(options.rounds):
        forms = list(FORMS)
        for form in forms[turn % len(forms) :] + forms[: turn % len(forms)]:
            done = subprocess.run(
                [sys.executable, __file__, "--child", form], capture_output=True, text=True, check=True
            )
            row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
            for name, ns in row.items():
                found.setdefault(name, {}).setdefault(form, []).append(ns)
    lines = [f"{'CPU per call, µs':34} {'off':>8} {'null':>8} {'on':>8} {'marked':>8}   goal"]
    for name, rows in found.items():
        off = statistics.median(rows["off"])
        more = [f"{(statistics.median(rows[form]) - off) / 1000:+8.2f}" for form in ("null", "on", "marked")]
        lines.append(f"{name:34} {off / 1000:8.2f} {' '.join(more)}   {GOALS[name]}")
    pages.show(lines, "Of seeing what may be a step" if options.keep else None)


if __name__ == "__main__":
    main()
