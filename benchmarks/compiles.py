"""What coldstep takes of a cold compile, counted: in its hooks and marks, and on its own threads.

    .venv/bin/python benchmarks/compiles.py [jax | torch | tensorflow]…
    .venv-xla/bin/python benchmarks/compiles.py torch_xla

A ratio of on to off hides a millisecond behind the noise of XLA's own threads; a thread's processor time, in each hook,
does not: less what a counted call of nothing takes. Each row is of processes of its own: the first compile, in which
all of ours runs for the first time, too, and the median of those that follow. What a compile takes is the processor
time of all threads, and of the compilers below.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pages

LONG_NS = 1_000_000_000
GOAL_SHARE, GOAL_NS = 0.01, 3_000_000  # of a compile of a second and more, and of a shorter one
LEAST_IMPORTED_NS = 20_000_000
LATER = 4
_CALIBRATED = 10_000
LAYERS = {
    "jax": {"short": 8, "long": 24},
    "torch": {"short": 8, "long": 24},
    "tensorflow": {"short": 8, "long": 200},
    "torch_xla": {"short": 4, "long": 200},
}
Row = dict[str, float]


def of_jax(layers: int, short: bool) -> Callable[[], object]:
    """The gradient through some layers; a long one through a softmax in each, too."""
    import jax
    import jax.numpy as jnp

    weights = [jnp.ones((32, 32))] * layers

    def loss(weights: list[Any]) -> Any:
        x = jnp.ones((4, 32))
        for weight in weights:
            x = jnp.tanh(x @ weight) if short else jnp.tanh(x @ weight) + jax.nn.softmax(x)
        return x.sum()

    step = jax.jit(jax.grad(loss))
    return lambda: jax.block_until_ready(step(weights))


def of_torch(layers: int, short: bool) -> Callable[[], object]:
    """The same and its backward: Dynamo and AOTAutograd alone, or Inductor and its C++ compiler, too."""
    import torch

    torch.compiler.reset()
    weights = [torch.ones(32, 32, requires_grad=True) for _ in range(layers)]

    def loss(weights: list[Any]) -> Any:
        x = torch.ones(4, 32)
        for weight in weights:
            x = torch.tanh(x @ weight)
        return x.sum()

    step = torch.compile(loss, backend="aot_eager" if short else "inductor")
    return lambda: step(weights).backward()


def of_tensorflow(layers: int, short: bool) -> Callable[[], object]:
    """The same as one graph; a long one through XLA."""
    import tensorflow as tf

    weights = [tf.Variable(tf.ones((32, 32))) for _ in range(layers)]

    @tf.function(jit_compile=not short)  # type: ignore[untyped-decorator]
    def step() -> Any:
        with tf.GradientTape() as tape:
            x = tf.ones((4, 32))
            for weight in weights:
                x = tf.tanh(x @ weight)
            total = tf.reduce_sum(x)
        return tape.gradient(total, weights)

    return step  # type: ignore[no-any-return]


def of_torch_xla(layers: int, _short: bool) -> Callable[[], object]:
    """The same as one lazy graph."""
    import torch
    import torch_xla

    device = torch_xla.device()
    weights = [torch.ones(32, 32, device=device, requires_grad=True) for _ in range(layers)]
    torch_xla.sync(wait=True)
    _seen.append(None)

    def step() -> None:
        x = torch.ones(3 + len(_seen), 32, device=device)  # each time another graph
        for weight in weights:
            x = torch.tanh(x @ weight)
        x.sum().backward()
        torch_xla.sync(wait=True)

    return step


_seen: list[None] = []
OF = {"jax": of_jax, "torch": of_torch, "tensorflow": of_tensorflow, "torch_xla": of_torch_xla}


class Count:
    """The processor time of calls by kind, the outermost on each thread but ours, less what counting takes itself."""

    def __init__(self) -> None:
        self.ns: Counter[str] = Counter()
        self._within = threading.local()
        self._counting_ns = 0
        nothing = self.of("nothing", int)
        for _ in range(2):  # the first time to warm up
            self.ns.clear()
            for _ in range(_CALIBRATED):
                nothing()
        self._counting_ns = self.ns.pop("nothing") // _CALIBRATED

    def of(self, kind: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same call, counted."""

        def counted(*args: Any, **kwargs: Any) -> Any:
            if getattr(self._within, "is_open", False) or threading.current_thread().name.startswith("coldstep-"):
                return call(*args, **kwargs)
            self._within.is_open, begun = True, time.thread_time_ns()
            try:
                return call(*args, **kwargs)
            finally:
                self.ns[kind] += time.thread_time_ns() - begun - self._counting_ns
                self._within.is_open = False

        return counted


def counted_in(owner: type, names: tuple[str, ...], count: Callable[[Any], Any]) -> None:
    """Have methods of a class counted, for all of this process."""
    for name in names:
        setattr(owner, name, count(getattr(owner, name)))


def counted_ns(stack: str, size: str) -> list[Row]:
    """Of the first compile of this process, and of some more: what it took, and what of that was ours; and beside it
    the same of importing modules."""
    import coldstep
    from coldstep import marks
    from coldstep._util import importhook
    from coldstep.recording.attached import Attached
    from coldstep_collectors.process.imports import Imports

    ours, theirs = Count(), Count()
    counted_in(Attached, ("guarded",), lambda guarded: lambda *asked: ours.of("hooks", guarded(*asked)))
    counted_in(marks._Step, ("__enter__", "__exit__"), partial(ours.of, "hooks"))
    counted_in(Imports, ("begin", "end"), partial(ours.of, "of imports"))
    counted_in(importhook._Loader, ("exec_module",), partial(theirs.of, "imports"))
    found: list[Row] = []
    gc.callbacks.append(_on_collection)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(folder, "inductor")
        for number in range(1 + LATER):
            os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"
            call = OF[stack](LAYERS[stack][size], size == "short")
            with coldstep.trace(os.path.join(folder, f"{number}.pftrace"), live=False):
                ours.ns.clear()
                theirs.ns.clear()
                begun, threads = _spent_ns(), _our_threads_ns()
                with coldstep.step():
                    call()
                imports = theirs.ns["imports"]
                found.append(
                    {
                        "took": _spent_ns() - begun - imports,
                        "hooks": ours.ns["hooks"],
                        "imports": imports,
                        "of imports": ours.ns["of imports"],
                        "threads": _our_threads_ns() - threads,
                    }
                )
    return found


def _spent_ns() -> int:
    times = os.times()
    return time.process_time_ns() + round((times.children_user + times.children_system) * 1e9)


def _our_threads_ns() -> int:
    """The processor time of the drain and of the thread that samples the process, less that of full garbage
    collections: these fall to whatever thread happens to allocate when one is due."""
    ours = [thread.ident for thread in threading.enumerate() if thread.name.startswith("coldstep-")]
    spent = sum(time.clock_gettime_ns(time.pthread_getcpuclockid(ident)) for ident in ours if ident is not None)
    return spent - sum(_collecting)


_collecting: list[int] = []
"""The processor time of each full collection on a thread of ours; of one under way less than nothing."""


def _on_collection(phase: str, about: dict[str, int]) -> None:
    if about["generation"] == 2 and threading.current_thread().name.startswith("coldstep-"):
        if phase == "start":
            _collecting.append(-time.thread_time_ns())
        else:
            _collecting[-1] += time.thread_time_ns()


def row(stack: str, size: str) -> dict[str, Row]:
    """The first compile of a fresh process, and those that follow, as medians."""
    words = [sys.executable, __file__, "--one", stack, size]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env={"PJRT_DEVICE": "CPU", **os.environ})
    first, *later = json.loads(done.stdout.splitlines()[-1])
    return {"first": first, "later": {name: statistics.median(each[name] for each in later) for name in first}}


def measure(stacks: list[str]) -> dict[str, dict[str, Row]]:
    """By stack and size."""
    return {f"{stack} {size}": row(stack, size) for stack in stacks for size in ("short", "long")}


def heading(stacks: list[str]) -> str:
    """What the rows stand below in docs/evidence/costs.md."""
    return f"Of a cold compile: {', '.join(stacks)}"


def table(results: dict[str, dict[str, Row]]) -> list[str]:
    """The rows, and whether each is within its goal. What a compile imports is no compile: it has a row of its own."""
    lines = [f"{'a cold compile, counted':34}{'CPU':>10}{'hooks, marks':>14}{'share':>8}{'our threads':>13}   goal"]
    for name, found in results.items():
        for which, one in found.items():
            if one["imports"] > LEAST_IMPORTED_NS:
                lines.append(_line(f"{name}, what it imports", one["imports"], one["of imports"], " " * 13))
            threads = f"{one['threads'] / 1e6:10.2f} ms"
            lines.append(_line(f"{name}, {which}", one["took"], one["hooks"], threads))
    return lines


def _line(name: str, took: float, hooks: float, threads: str) -> str:
    goal = f"≤ {GOAL_SHARE:.0%}".replace("%", " %") if took >= LONG_NS else f"≤ {GOAL_NS / 1e6:g} ms"
    return f"  {name:32}{took / 1e6:7,.0f} ms{hooks / 1e6:11.2f} ms{hooks / took:8.2%}{threads}   {goal}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stacks", nargs="*", choices=[*OF, []], help="default: jax, torch and tensorflow")
    parser.add_argument("--keep", action="store_true", help="put it into docs/evidence/costs.md")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(counted_ns(*options.one)))
    else:
        stacks = options.stacks or ["jax", "torch", "tensorflow"]
        pages.show(table(measure(stacks)), heading(stacks) if options.keep else None)


if __name__ == "__main__":
    main()
