"""What coldstep costs: its marks, the drain, its start and end, a short step, a cold compile, and of these what
explains; beside others.

`make bench`

What can be counted exactly is counted: CPU nanoseconds of the step's own thread, memory blocks. For whole steps
and compiles there is only the ratio of "on" to "off", so the same is measured as "off" against "off", interleaved
with it: the null ratio and its spread say how much of the other ratio is noise.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import beside
import compiles
import figures
import pages
import reading

import coldstep

MARKS = 2_000  # steps per sample of the marks: as many as may well come between two visits of the drain
DRAINED = 40_000  # steps per sample of the drain: of up to 20,000 its thread reads the file back as the trace ends
STEPS = 100  # steps per sample of the 1 ms step
LAYERS = 8  # of what is compiled
COMPILES = 4  # times as many rounds for a compile: XLA's own threads differ by a fifth from one to the next
EXPLAINED = 2  # and where what explains is counted, too
HEADING = "Marks, start and end, ratios, other profilers"
STACKS = ["jax", "torch", "tensorflow"]  # whose cold compiles are counted
IDLE_S = 5  # a sleeping process is sampled so long
WARM = 40  # the exits of a trace's first 32 steps write to disk themselves


@contextlib.contextmanager
def tracing(on: bool = True, collectors: str = "auto") -> Iterator[None]:
    """An active trace into a temporary file, without its line on stderr; none where `on` is False."""
    if not on:
        yield
        return
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.redirect_stderr(io.StringIO()),
        coldstep.trace(os.path.join(folder, "bench.pftrace"), collectors=collectors),
    ):
        yield


def interleaved(rounds: int, *forms: Callable[[], float]) -> list[list[float]]:
    """`rounds` samples of each form, taken in turn, each round beginning with another one."""
    samples: list[list[float]] = [[] for _ in forms]
    for turn in range(rounds):
        for i in range(len(forms)):
            which = (turn + i) % len(forms)
            samples[which].append(forms[which]())
    return samples


# ---- marks


def run_floor(n: int) -> None:
    for _ in range(n):
        with contextlib.nullcontext():
            pass


def run_steps(n: int) -> None:
    for _ in range(n):
        with coldstep.step():
            pass


def spaced_ns(run: Callable[[int], None]) -> float:
    """The same for single steps, each after half a millisecond of other work that has filled the CPU's caches."""
    run(WARM)
    samples = []
    for _ in range(STEPS):
        sorted(range(5000, 0, -1), key=str)
        before = time.thread_time_ns()
        run(1)
        samples.append(time.thread_time_ns() - before)
    return statistics.median(samples)


def thread_ns(run: Callable[[int], None]) -> float:
    """CPU nanoseconds of this thread per step."""
    run(WARM)
    before = time.thread_time_ns()
    run(MARKS)
    return (time.thread_time_ns() - before) / MARKS


def drain_ns() -> float:
    """CPU nanoseconds per step of all other threads, the trace's end included: none works but the drain. A full
    garbage collection would fall to whatever thread allocates when one is due."""
    gc.disable()
    process, thread = time.process_time_ns(), time.thread_time_ns()
    with tracing():
        run_steps(DRAINED)
    spent = time.process_time_ns() - process - time.thread_time_ns() + thread
    gc.enable()
    return spent / DRAINED


def sampling_ns() -> float:
    """CPU nanoseconds per second of the thread that watches the process, which has a child."""

    def idle(collectors: str) -> int:
        with tracing(collectors=collectors), subprocess.Popen(["sleep", str(IDLE_S)]) as child:
            before = time.process_time_ns()
            child.wait()
            return time.process_time_ns() - before

    return (idle("process") - idle("imports")) / IDLE_S


def retained(run: Callable[[int], None], n: int = 1000) -> tuple[float, float]:
    """Memory blocks and bytes per step that live until the drain comes."""
    run(WARM)
    blocks, sizes = [], []
    gc.disable()
    for _ in range(5):
        before = sys.getallocatedblocks()
        run(n)
        blocks.append((sys.getallocatedblocks() - before) / n)
    tracemalloc.start()
    for _ in range(5):
        before, _ = tracemalloc.get_traced_memory()
        run(n)
        sizes.append((tracemalloc.get_traced_memory()[0] - before) / n)
    tracemalloc.stop()
    gc.enable()
    # the drain may come in between, and take; it never adds
    return round(max(0.0, *blocks), 1), round(max(0.0, *sizes))


def marks(rounds: int) -> dict[str, Any]:
    def traced(measure: Callable[[Callable[[int], None]], float]) -> float:
        with tracing():
            return measure(run_steps)

    # a mark asks the frameworks that are there whether they trace it
    import_module("jax")
    import_module("torch")
    forms = {
        "bare_with_ns": lambda: thread_ns(run_floor),
        "no_trace_ns": lambda: thread_ns(run_steps),
        "traced_ns": lambda: traced(thread_ns),
        "drain_ns": drain_ns,
        "bare_with_spaced_ns": lambda: spaced_ns(run_floor),
        "no_trace_spaced_ns": lambda: spaced_ns(run_steps),
        "traced_spaced_ns": lambda: traced(spaced_ns),
    }
    samples = interleaved(rounds, *forms.values())
    with tracing():
        blocks, sizes = retained(run_steps)
    off_blocks, off_sizes = retained(run_steps)
    return {name: statistics.median(taken) for name, taken in zip(forms, samples, strict=True)} | {
        "traced_blocks": blocks,
        "traced_bytes": sizes,
        "no_trace_blocks": off_blocks,
        "no_trace_bytes": off_sizes,
        "sampling_ns_per_s": sampling_ns(),
    }


# ---- start and end

EMPTY = """
import sys
from time import process_time_ns
{framework}
at = [process_time_ns()]
import coldstep
at.append(process_time_ns())
with coldstep.trace(sys.argv[1]):
    at.append(process_time_ns())
at.append(process_time_ns())
print(*at)
"""
FRAMEWORKS = {"nothing": "", "jax": "import jax", "torch": "import torch"}
STRETCHES = ("import coldstep", "entering trace()", "leaving it")


def empty_ns(framework: str) -> list[int]:
    """CPU nanoseconds of each stretch, of a trace of nothing, in a fresh process with `framework` imported."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as folder:
        program = EMPTY.format(framework=framework)
        done = subprocess.run(
            [sys.executable, "-c", program, os.path.join(folder, "t.pftrace")],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
        )
    at = [int(word) for word in done.stdout.split()]
    return [after - before for before, after in pairwise(at)]


def start_and_end(rounds: int) -> dict[str, list[float]]:
    """By what was imported before: the median of each of the `STRETCHES`."""
    samples: dict[str, list[list[int]]] = {name: [] for name in FRAMEWORKS}
    empty_ns("")  # Python keeps what it has compiled of coldstep itself
    for _ in range(rounds):
        for name, framework in FRAMEWORKS.items():
            samples[name].append(empty_ns(framework))
    return {name: [statistics.median(taken) for taken in zip(*rows, strict=True)] for name, rows in samples.items()}


PROCESSES = {
    "python": ["-c", ""],
    "coldstep run": ["-m", "coldstep", "run", "--no-live", "empty.py"],
    "coldstep --version": ["-m", "coldstep", "--version"],
}


def processes(rounds: int) -> dict[str, float]:
    """CPU nanoseconds of whole processes that do nothing, with Python's own start and end."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    samples: dict[str, list[float]] = {name: [] for name in PROCESSES}
    with tempfile.TemporaryDirectory() as folder:
        open(os.path.join(folder, "empty.py"), "w").close()
        for taken in range(rounds + 1):  # in the first Python keeps what it has compiled of coldstep itself
            for name, words in PROCESSES.items():
                before = children_s()
                subprocess.run([sys.executable, *words], cwd=folder, env=environment, check=True, capture_output=True)
                if taken:
                    samples[name].append((children_s() - before) * 1e9)
    return {name: statistics.median(row) for name, row in samples.items()}


def children_s() -> float:
    """CPU seconds of all processes that have been waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# ---- ratios


Around = Callable[[bool], contextlib.AbstractContextManager[None]]
"""What is on or off while something is measured."""


def compare(rounds: int, measure: Callable[[bool], float]) -> dict[str, Any]:
    """`measure(on)` against `measure(off)`, and off against off."""
    for on in (False, True):
        measure(on)  # what only the first time pays
    off, traced, again = interleaved(rounds, lambda: measure(False), lambda: measure(True), lambda: measure(False))
    return {
        "off_ms": statistics.median(off) / 1e6,
        "ratio": statistics.median(traced) / statistics.median(off),
        "null_ratio": statistics.median(again) / statistics.median(off),
        "pair_ratios": spread([a / b for a, b in zip(traced, off, strict=True)]),
        "null_pair_ratios": spread([a / b for a, b in zip(again, off, strict=True)]),
    }


def spread(ratios: list[float]) -> list[float]:
    """The quartiles."""
    return statistics.quantiles(ratios, n=4)[::2]


def jax_step(around: Around) -> Callable[[bool], float]:
    """Wall time of a jitted step of about 1 ms that compiles nothing, waited for."""
    import jax
    import jax.numpy as jnp

    work = jax.jit(lambda x: jnp.tanh(x @ x / 400.0))
    x = jax.random.normal(jax.random.key(0), (400, 400))

    def measure(on: bool) -> float:
        times = []
        with around(on):
            for _ in range(WARM + STEPS):
                before = time.perf_counter_ns()
                with coldstep.step():
                    coldstep.wait(work(x)).block_until_ready()  # without a trace, `wait` does not wait
                times.append(time.perf_counter_ns() - before)
        return statistics.median(times[WARM:])

    return measure


def jax_compile(around: Around) -> Callable[[bool], float]:
    """CPU time of the process for a cold compile of a gradient through eight layers in JAX."""
    import jax
    import jax.numpy as jnp

    weights = [jnp.ones((32, 32))] * LAYERS

    def measure(on: bool) -> float:
        def loss(weights: list[jax.Array]) -> jax.Array:
            x = jnp.ones((4, 32))
            for weight in weights:
                x = jnp.tanh(x @ weight)
            return x.sum()

        fresh = jax.jit(jax.grad(loss))
        with around(on):
            before = time.process_time_ns()
            with coldstep.step():
                coldstep.wait(fresh(weights))
            return time.process_time_ns() - before

    return measure


def torch_compile(around: Around) -> Callable[[bool], float]:
    """CPU time of the process for a cold torch.compile, backend aot_eager, of eight layers and their backward."""
    import torch

    weights = [torch.ones(32, 32, requires_grad=True) for _ in range(LAYERS)]

    def measure(on: bool) -> float:
        def loss(weights: list[torch.Tensor]) -> torch.Tensor:
            x = torch.ones(4, 32)
            for weight in weights:
                x = torch.tanh(x @ weight)
            return x.sum()

        torch.compiler.reset()
        fresh = torch.compile(loss, backend="aot_eager")
        with around(on):
            before = time.process_time_ns()
            with coldstep.step():
                fresh(weights).backward()
            return time.process_time_ns() - before

    return measure


def torch_recompile(around: Around) -> Callable[[bool], float]:
    """CPU time of the process for compiling a function of eight tensors again, for another number."""
    import torch

    weights = [torch.ones(32, 32) for _ in range(LAYERS)]

    def measure(on: bool) -> float:
        def loss(weights: list[torch.Tensor], scale: float) -> torch.Tensor:
            x = torch.ones(4, 32)
            for weight in weights:
                x = torch.tanh(x @ weight)
            return x.sum() * scale

        torch.compiler.reset()
        fresh = torch.compile(loss, backend="aot_eager")
        with around(on):
            fresh(weights, 0.5)
            before = time.process_time_ns()
            with coldstep.step():
                fresh(weights, 0.25)
            return time.process_time_ns() - before

    return measure


# ---- explaining

NAMELESS = {"function": "f", "origin": "user", "key": "", "identity": "f", "location": None, "caller": None}
UNEXPLAINED: dict[str, dict[str, Callable[..., Any]]] = {
    "coldstep_collectors.jax.describe:Describer": {
        "describe": lambda *_: {**NAMELESS, "inputs": [], "context": {}},
        "returned": lambda *_: [],
        "with_backend": lambda _, context, found: context,
    },
    "coldstep_collectors.torch.describe:Describer": {
        "describe": lambda *_: {**NAMELESS, "inputs": [], "context": {}},
        "guarded": lambda *_: {},
        "dynamic": lambda *_: {},
    },
}
"""All that finds out what a compile is of and for, and what stands in for it where nothing is found out."""


def finding_out() -> Iterator[tuple[type, str, Callable[..., Any]]]:
    """The classes, their methods, and the stand-ins."""
    for where, methods in UNEXPLAINED.items():
        module, _, name = where.partition(":")
        for method, instead in methods.items():
            yield getattr(import_module(module), name), method, instead


@contextlib.contextmanager
def explaining(on: bool) -> Iterator[None]:
    """An active trace; where `on` is False it says when something compiles, and neither what nor what for."""
    with contextlib.ExitStack() as stack:
        for owner, method, instead in finding_out() if not on else ():
            stack.enter_context(patch.object(owner, method, instead))
        stack.enter_context(tracing())
        yield


def counted(work: Callable[[], float]) -> tuple[int, float]:
    """How often `work` comes by what explains, and the CPU nanoseconds of the thread in it."""
    calls, spent = 0, 0

    def watched(method: Callable[..., Any]) -> Callable[..., Any]:
        def watching(*args: Any) -> Any:
            nonlocal calls, spent
            before = time.thread_time_ns()
            try:
                return method(*args)
            finally:
                calls, spent = calls + 1, spent + time.thread_time_ns() - before

        return watching

    with contextlib.ExitStack() as stack:
        for owner, method, _ in finding_out():
            stack.enter_context(patch.object(owner, method, watched(getattr(owner, method))))
        work()
    return calls, spent


def explained(rounds: int, form: Callable[[Around], Callable[[bool], float]]) -> dict[str, Any]:
    """A trace that explains against one that does not; and, counted, what explaining takes of one `form`."""
    found = compare(rounds, form(explaining))
    measure = form(tracing)
    measure(True)  # what only the first time pays
    calls, spent = counted(lambda: measure(True))
    return found | {"calls": calls, "counted_ms": spent / 1e6}


# ---- reading


def long_run() -> reading.Row:
    """What a run of a million steps leaves, and what reading it takes."""
    with tempfile.TemporaryDirectory() as folder:
        steps, where = reading.STEPS[-1], Path(folder)
        return reading.row(steps, 100, where) | reading.inferred(steps, 100, where)


# ---- telling

TITLES = {
    "short_step": "a JAX step of 1 ms, wall",
    "jax_compile": "a cold JAX compile, CPU",
    "torch_compile": "a cold torch.compile, CPU",
    "torch_recompile": "torch compiles again, CPU",
}


def table(results: dict[str, Any]) -> str:
    m = results["marks"]
    lines = [
        f"{results['machine']}, {results['rounds']} rounds, medians",
        "",
        "a step's two marks, CPU per step      in a row   after other work   goal",
    ]
    for title, name, goal in (
        ("a bare `with`, for comparison", "bare_with", ""),
        ("no trace active", "no_trace", "≤ 3 µs"),
        ("traced, on the step's own thread", "traced", "≤ 3 µs above a bare with"),
        ("traced, on the drain's thread", "drain", "≤ 5 µs"),
    ):
        spaced = f"{m[f'{name}_spaced_ns'] / 1e3:.2f} µs" if f"{name}_spaced_ns" in m else ""
        lines.append(f"  {title:35}{m[f'{name}_ns'] / 1e3:6.2f} µs   {spaced:>16}   {goal}")
    starts = results["start_and_end"]
    lines += [
        f"  memory until drained: {m['traced_blocks']:g} blocks, {m['traced_bytes']:g} bytes"
        f" (no trace active: {m['no_trace_blocks']:g}, {m['no_trace_bytes']:g})",
        f"  the process sampled, on a thread of its own: {m['sampling_ns_per_s'] / 1e6:.1f} ms of CPU per second",
        "",
        f"a trace of nothing, CPU, imported before:{''.join(f'{name:>12}' for name in starts)}",
        *(
            f"  {stretch:39}{''.join(f'{row[i] / 1e6:9.1f} ms' for row in starts.values())}"
            for i, stretch in enumerate(STRETCHES)
        ),
        "",
        "a whole process that does nothing, CPU",
        *(f"  {name:39}{ns / 1e6:9.0f} ms" for name, ns in results["processes"].items()),
        "",
        "on against off, interleaved            off      on/off  (quartiles)       off/off  (quartiles)",
    ]
    lines += [ratios(TITLES[key], row) for key, row in results["tracing"].items()]
    lines += [
        "",
        "explaining on against off, traced       off      on/off  (quartiles)       off/off  (quartiles)    counted",
    ]
    for key, row in results["explaining"].items():
        lines.append(f"{ratios(TITLES[key], row)}    {row['calls']} calls, {row['counted_ms']:.2f} ms")
    long = results["reading"]
    lines += ["", "a long run, read back, CPU", f"  {reading.line(long)}"]
    lines += [f"  its report where no step is marked: {long['inferred_s']:.1f} s {long['inferred_mib']:.0f} MiB"]
    return "\n".join([*lines, "", *beside.table(results["beside"])])


def ratios(title: str, r: dict[str, Any]) -> str:
    (low, high), (null_low, null_high) = r["pair_ratios"], r["null_pair_ratios"]
    return (
        f"  {title:27}{r['off_ms']:10.2f} ms    {r['ratio']:6.3f}  ({low:.3f} - {high:.3f})"
        f"    {r['null_ratio']:6.3f}  ({null_low:.3f} - {null_high:.3f})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--keep", action="store_true", help="keep it: docs/evidence/costs.md, figures.json")
    parser.add_argument("--rounds", type=int, default=15, help="samples of each form (default: 15, at least 2)")
    options = parser.parse_args()
    rounds = options.rounds
    results = {
        "machine": f"{os.cpu_count()} CPUs, Python {platform.python_version()}",
        "rounds": rounds,
        "marks": marks(rounds),
        "start_and_end": start_and_end(max(3, rounds // 3)),
        "processes": processes(max(3, rounds // 3)),
        "tracing": {
            "short_step": compare(rounds, jax_step(tracing)),
            "jax_compile": compare(COMPILES * rounds, jax_compile(tracing)),
            "torch_compile": compare(COMPILES * rounds, torch_compile(tracing)),
        },
        "explaining": {
            "short_step": explained(rounds, jax_step),
            "jax_compile": explained(EXPLAINED * rounds, jax_compile),
            "torch_compile": explained(EXPLAINED * rounds, torch_compile),
            "torch_recompile": explained(EXPLAINED * rounds, torch_recompile),
        },
        "compiles": compiles.measure(STACKS),
        "beside": beside.measure(max(2, rounds // 3)),
        "reading": long_run(),
    }
    if options.json:
        print(json.dumps(results, indent=1))
    else:
        pages.show(table(results).splitlines(), HEADING if options.keep else None)
        pages.show(["", *compiles.table(results["compiles"])], compiles.heading(STACKS) if options.keep else None)
    if options.keep:
        print("", *figures.table(figures.keep(results)), sep="\n")


if __name__ == "__main__":
    main()
