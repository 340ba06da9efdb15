"""One and the same training run under each collector alone, under all of them, and under other profilers."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import coldstep

LAYERS, WIDTH, BATCH = 8, 128, 32  # a steady step takes about a millisecond
STEADY = 80  # steps, the first of which are not counted: a trace's first 32 exits write to disk themselves
COUNTED = 40
COLLECTORS = ("imports", "jax", "dynamo", "inductor", "process", "xspace", "kineto")
COLUMNS = {
    "jax_first": "JAX, first step",
    "torch_first": "torch, first step",
    "jax_steady": "JAX, steady step",
    "torch_steady": "torch, steady step",
}
"""What is told of a run as a ratio: CPU of the process in the first steps, wall time of the steady ones."""

Form = Callable[[str], contextlib.AbstractContextManager[Any]]
"""A profiler around a run, given a folder to write in."""


@dataclass(slots=True)
class Jobs:
    """What is run: a training step in JAX and one under torch.compile, freshly made for every run."""

    jax: Callable[[], Callable[[], Any]]
    torch: Callable[[], Callable[[], Any]]


def jobs() -> Jobs:
    """The gradients of a loss through eight layers."""
    import jax
    import jax.numpy as jnp
    import torch

    torch.set_num_threads(1)
    arrays = [jnp.ones((WIDTH, WIDTH)) / WIDTH] * LAYERS
    tensors = [torch.full((WIDTH, WIDTH), 1 / WIDTH, requires_grad=True) for _ in range(LAYERS)]

    def in_jax() -> Callable[[], Any]:
        def loss(weights: list[jax.Array]) -> jax.Array:
            x = jnp.ones((BATCH, WIDTH))
            for weight in weights:
                x = jnp.tanh(x @ weight)
            return x.sum()

        fresh = jax.jit(jax.grad(loss))
        return lambda: jax.block_until_ready(fresh(arrays))

    def in_torch() -> Callable[[], Any]:
        def loss(weights: list[torch.Tensor]) -> torch.Tensor:
            x = torch.ones(BATCH, WIDTH)
            for weight in weights:
                x = torch.tanh(x @ weight)
            return x.sum()

        torch.compiler.reset()
        fresh = torch.compile(loss, backend="aot_eager")
        return lambda: fresh(tensors).backward()

    return Jobs(in_jax, in_torch)


@contextlib.contextmanager
def _traced(folder: str, **options: Any) -> Iterator[None]:
    with contextlib.redirect_stderr(io.StringIO()), coldstep.trace(os.path.join(folder, "t.pftrace"), **options):
        yield


@contextlib.contextmanager
def _torch_profiler(folder: str) -> Iterator[None]:
    import torch

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        yield
    profile.export_chrome_trace(os.path.join(folder, "trace.json"))


@contextlib.contextmanager
def _jax_profiler(folder: str) -> Iterator[None]:
    import jax

    with jax.profiler.trace(folder):
        yield


@contextlib.contextmanager
def _viztracer(folder: str) -> Iterator[None]:
    from viztracer import VizTracer

    with VizTracer(verbose=0, output_file=os.path.join(folder, "trace.json")):
        yield


@contextlib.contextmanager
def _py_spy(folder: str) -> Iterator[None]:
    program = Path(sys.executable).with_name("py-spy")
    command = [program, "record", "--pid", str(os.getpid()), "--nonblocking", "--idle", "--format", "speedscope"]
    log = Path(folder, "log")
    with open(log, "wb") as said:
        spy = subprocess.Popen([*command, "-o", os.path.join(folder, "s")], stdout=said, stderr=said)
    while spy.poll() is None and b"Sampling" not in log.read_bytes():
        time.sleep(0.01)
    try:
        yield
    finally:
        spy.send_signal(signal.SIGINT)
        spy.wait()


FORMS: dict[str, Form] = {
    "nothing": lambda _: contextlib.nullcontext(),
    "nothing again: the null ratio": lambda _: contextlib.nullcontext(),
    **{f"coldstep, {name} alone": lambda folder, name=name: _traced(folder, collectors=[name]) for name in COLLECTORS},
    "coldstep, stacks alone": lambda folder: _traced(folder, collectors=["stacks"], stacks=True),
    'coldstep, device="off"': lambda folder: _traced(folder, device="off"),
    "coldstep": _traced,
    'coldstep, device="all", stacks=True': lambda folder: _traced(folder, device="all", stacks=True),
    "torch.profiler": _torch_profiler,
    "jax.profiler": _jax_profiler,
    "viztracer": _viztracer,
    "py-spy": _py_spy,
}


def run(form: Form, work: Jobs) -> dict[str, float]:
    """Nanoseconds of one run; `end` is what comes after its last step, until all is written."""
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        with form(folder):
            for name, fresh in (("jax", work.jax()), ("torch", work.torch())):
                times = []
                for n in range(1 + STEADY):
                    cpu, wall = time.process_time_ns(), time.perf_counter_ns()
                    with coldstep.step(name):
                        fresh()
                    if n == 0:
                        found[f"{name}_first"] = time.process_time_ns() - cpu
                    times.append(time.perf_counter_ns() - wall)
                found[f"{name}_steady"] = statistics.median(times[-COUNTED:])
            ended = time.perf_counter_ns()
        found["end"] = time.perf_counter_ns() - ended
    return found


def measure(rounds: int) -> dict[str, dict[str, float]]:
    """By form: the ratio of each column to "nothing" of the same round, and the end in nanoseconds; medians."""
    work = jobs()
    samples: dict[str, list[dict[str, float]]] = {name: [] for name in FORMS}
    names = list(FORMS)
    for form in FORMS.values():
        run(form, work)  # what only the first time pays
    for turn in range(rounds):
        for i in range(len(names)):
            name = names[(turn + i) % len(names)]
            samples[name].append(run(FORMS[name], work))
    plain = samples["nothing"]
    return {
        name: {
            column: statistics.median(mine[column] / its[column] for mine, its in zip(taken, plain, strict=True))
            if name != "nothing"
            else statistics.median(row[column] for row in taken)
            for column in COLUMNS
        }
        | {"end": statistics.median(row["end"] for row in taken)}
        for name, taken in samples.items()
    }


def table(found: dict[str, dict[str, float]]) -> list[str]:
    """The rows, as text."""
    lines = [f"{'the same run beside other profilers':38}" + "".join(f"{title:>20}" for title in COLUMNS.values())]
    lines[0] += "   after the run"
    for name, row in found.items():
        cells = (f"{row[column] / 1e6:17.2f} ms" if name == "nothing" else f"{row[column]:20.3f}" for column in COLUMNS)
        lines.append(f"  {name:36}{''.join(cells)}{row['end'] / 1e6:13.0f} ms")
    return lines


if __name__ == "__main__":
    print("\n".join(table(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 5))))
