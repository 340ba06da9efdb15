"""What a forecast says against what then happens: every program that provokes a cause, and data not made for it.

`python benchmarks/forecasts.py --output docs/forecast.md` writes the page. The data: functions of Python's own library
as tokens, the sizes of PNG files that are installed here, and the syntax trees of modules as graphs.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import os
import platform
import random
import struct
import subprocess
import sys
import sysconfig
import tempfile
import time
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from scenarios import foretelling  # noqa: E402

import coldstep  # noqa: E402
from coldstep.analysis.buckets import padded  # noqa: E402
from coldstep.analysis.plans import Plan  # noqa: E402
from coldstep.forecasting import Forecast, each_call  # noqa: E402
from coldstep_collectors._private import jax_signatures  # noqa: E402
from coldstep_collectors._private.torch import rehearsal  # noqa: E402

_CALLS = 60
_LIBRARY = Path(sysconfig.get_path("stdlib"))
_PACKAGES = Path(sysconfig.get_path("purelib"))


@dataclass
class Count:
    """Calls, by how their forecast held."""

    calls: int = 0
    right: int = 0
    unknown: int = 0
    wrong: int = 0
    other_causes: int = 0

    def add(self, held: foretelling.Held) -> None:
        self.calls += held.calls
        self.wrong += len(held.wrong)
        self.unknown += len(held.unknown)
        self.right += held.calls - len(held.wrong) - len(held.unknown)
        self.other_causes += len(held.other_causes)

    def row(self, name: str) -> str:
        share = f"{100 * self.right / self.calls:.1f} %"
        return (
            f"| {name} | {self.calls} | {self.right} ({share}) | {self.unknown} | {self.wrong} | {self.other_causes} |"
        )


# --- data that was not made for it ----------------------------------------------------------------------------------


def lengths() -> list[tuple[int, ...]]:
    """Tokens of functions in Python's library, in batches of four, padded to the longest of each batch."""
    source = (_LIBRARY / "argparse.py").read_text()
    found = [
        len(list(tokenize.generate_tokens(io.StringIO(ast.get_source_segment(source, node)).readline)))
        for node in ast.walk(ast.parse(source))
        if (isinstance(node, ast.FunctionDef) and node.col_offset == 0) or isinstance(node, ast.ClassDef)
    ]
    return [(4, max(found[at : at + 4])) for at in range(0, len(found) - 3)][:_CALLS]


def images() -> list[tuple[int, ...]]:
    """Heights and widths of PNG files, an eighth of them, as they come."""
    found = []
    for path in sorted(_PACKAGES.rglob("*.png")) + sorted((ROOT / "docs").glob("*.png")):
        head = path.read_bytes()[:24]
        if head[:8] == b"\x89PNG\r\n\x1a\n":
            width, height = struct.unpack(">II", head[16:24])
            found.append((max(1, height // 8), max(1, width // 8), 3))
    return found[:_CALLS]


def graphs() -> list[tuple[int, ...]]:
    """Nodes and depths of the syntax trees of modules: a graph's nodes by a few features."""
    files = sorted(_LIBRARY.glob("*.py"))[: 3 * _CALLS : 3]
    return [(sum(1 for _ in ast.walk(ast.parse(path.read_text()))) // 16 + 1, 4) for path in files][:_CALLS]


DATA: dict[str, Callable[[], list[tuple[int, ...]]]] = {
    "token counts of argparse's functions, four to a batch": lengths,
    "heights and widths of installed PNG files": images,
    "nodes of modules' syntax trees": graphs,
}


@dataclass
class OfData:
    """A stream of sizes: how its forecast held, and what its plans led to."""

    stack: str
    name: str
    held: foretelling.Held
    forecast: Forecast
    foretelling_s: float
    first_s: float


def held(stack: str, name: str, shapes: list[tuple[int, ...]]) -> OfData:
    """Forecast a stream of shapes, then run it."""
    make, function = _made(stack)
    calls = [make(shape) for shape in shapes]
    began = time.perf_counter()
    forecast = coldstep.forecast(function(), calls)
    took = time.perf_counter() - began
    happened, first_s = ran(function(), calls)
    said = [(row.call, row.cause, row.argument, row.before, row.after) for row in forecast.compiles]
    unknown = {row.call: row.why for row in forecast.unknown}
    return OfData(stack, name, foretelling.Held(happened, said, unknown, len(calls)), forecast, took, first_s)


def ran(function: Callable[..., Any], calls: list[Any]) -> tuple[list[foretelling.Row], float]:
    """What compiles as these calls are made, and the first one's seconds."""
    foretelling.forget()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run.pftrace")
        with coldstep.trace(path, device="off", live=False):
            for call in each_call(calls):
                with coldstep.step("call"):
                    coldstep.wait(function(*call.args, **call.kwargs))
        trace = coldstep.load(path)
    foretelling.forget()
    first = next(row for row in trace.intervals if row.kind == "step")
    return foretelling.happened(trace, "call"), first.wall_ns / 1e9


def _made(stack: str) -> tuple[Callable[[tuple[int, ...]], Any], Callable[[], Any]]:
    """What makes an input of a shape, and a function to be compiled."""
    if stack == "jax":
        import jax
        import jax.numpy as jnp

        def score(x: Any) -> Any:
            return jnp.tanh(x @ jnp.ones((x.shape[-1], 8))).sum() if x.ndim == 2 else jnp.tanh(x).mean()

        return jnp.ones, lambda: jax.jit(score)
    import torch

    def score_(x: Any) -> Any:
        return torch.tanh(x).softmax(-1).sum()

    return torch.ones, lambda: torch.compile(score_, backend="eager")


# --- plans that are followed ------------------------------------------------------------------------------------------


def followed(stack: str, shapes: list[tuple[int, ...]]) -> Iterator[tuple[str, Plan, int]]:
    """Some plans of a stream, each with how often the function compiled as it was followed."""
    make, function = _made(stack)
    curve = coldstep.forecast(function(), [make(shape) for shape in shapes]).curves[0]
    foretelling.forget()
    for plan in curve.plans[1:]:
        if plan.compiles is None or len(plan.buckets) > 4:
            continue
        definition, _, last = plan.code.rpartition("\n")
        written: dict[str, Any] = {"torch": sys.modules.get("torch")}
        exec(definition, written)
        calls = []
        for shape in shapes:
            written["x"] = make(shape)
            exec(last, written)
            calls.append(written["x"])
        yield plan.kind, plan, len(ran(function(), calls)[0])


def padding() -> Iterator[tuple[str, float, float]]:
    """For plans of a function whose work grows with the size: the work with padding, as it was foretold and as the
    steady calls took it, where the work without any is 1."""
    import jax
    import jax.numpy as jnp

    chance = random.Random(7)
    lengths = [16 * chance.randint(8, 64) for _ in range(24)]
    weights = jnp.ones((256, 256))

    def score(x: Any) -> Any:
        for _ in range(12):
            x = jnp.tanh(x @ weights)
        return x.sum()

    curve = coldstep.forecast(jax.jit(score), [jnp.ones((length, 256)) for length in lengths]).curves[0]
    alone = 0.0
    for plan in curve.plans[:5]:
        function = jax.jit(score)
        sizes = padded(lengths, plan.buckets)
        batches = [jnp.ones((size, 256)) for size in sizes]
        took = []
        for _ in range(6):  # the first compiles
            began = time.perf_counter()
            jax.block_until_ready([function(x) for x in batches])
            took.append(time.perf_counter() - began)
        best = min(took[1:])
        alone = alone or best
        yield f"{plan.kind}, {len(plan.buckets)}", 1 / (1 - plan.padding_share), best / alone


# --- what it costs ----------------------------------------------------------------------------------------------------


def costs() -> Iterator[tuple[str, float, float, float]]:
    """For a model per stack: seconds of the forecast, of the one abstract trace in it, and of the first step."""
    import jax
    import jax.numpy as jnp

    params = [jnp.ones((256, 256)) for _ in range(24)]

    def step(params: Any, x: Any) -> Any:
        def loss(params: Any) -> Any:
            y = x
            for w in params:
                y = jnp.tanh(y @ w)
            return (y**2).sum()

        return [p - 0.1 * g for p, g in zip(params, jax.grad(loss)(params), strict=True)]

    calls = [(params, jnp.ones((8, 256)))] * 20
    coldstep.forecast(jax.jit(lambda x: x), [jnp.ones(3)])  # what only the first in a process takes
    with timed(jax_signatures.Traced, "__init__") as spent:
        began = time.perf_counter()
        coldstep.forecast(jax.jit(step), calls, feed={"": "params"})
        took = time.perf_counter() - began
    yield "jax", took, sum(spent), ran(jax.jit(step), calls[:4])[1]

    import torch

    layers = [part for _ in range(12) for part in (torch.nn.Linear(256, 256), torch.nn.GELU())]
    model = torch.nn.Sequential(*layers)
    inputs = [torch.ones(8, 256)] * 20
    coldstep.forecast(torch.compile(torch.nn.Sequential(torch.nn.GELU())), inputs[:1])
    foretelling.forget()
    with timed(rehearsal.Rehearsal, "judge") as spent:
        began = time.perf_counter()
        coldstep.forecast(torch.compile(model), inputs)
        took = time.perf_counter() - began
    yield "torch", took, spent[0], ran(torch.compile(model), inputs[:4])[1]


@contextlib.contextmanager
def timed(owner: type, name: str) -> Iterator[list[float]]:
    """The seconds of each call of a method."""
    real, spent = getattr(owner, name), list[float]()

    def method(*args: Any) -> Any:
        began = time.perf_counter()
        try:
            return real(*args)
        finally:
            spent.append(time.perf_counter() - began)

    setattr(owner, name, method)
    try:
        yield spent
    finally:
        setattr(owner, name, real)


def page() -> Iterator[str]:
    """The page, line by line."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout
    packages = ", ".join(f"{name} {version(name)}" for name in ("jax", "torch", "tensorflow-cpu"))
    yield "# Forecasts against what happened"
    yield ""
    yield f"`benchmarks/forecasts.py`, {time.strftime('%Y-%m-%d')}, at {commit.strip()}; {packages}, Python"
    yield f"{platform.python_version()}, 2 cores that did other work, too: times are one run's each."
    yield ""
    yield "## Every program whose cause a call's arguments show"
    yield ""
    yield "Each program of `tests/scenarios` in which something compiles again for a cause that stands in the arguments"
    yield "runs once with its calls taken down; then they are judged, by functions compiled anew. *Right*: a call that"
    yield "compiles was foretold, one that does not was not. *Other words*: compiles that were foretold rightly, but"
    yield "whose cause, argument, before or after is another than the run's report says."
    yield ""
    yield "| stack | calls | right | unknown | wrong | other words |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    reasons: list[str] = []
    for stack in ("jax", "torch", "tensorflow"):
        __import__({"torch": "torch._dynamo"}.get(stack, stack))
        count = Count()
        for path in foretelling.programs(stack):
            for row in foretelling.run(path):
                count.add(row)
                reasons += [f"{stack}/{path.stem}: {why}" for why in set(row.unknown.values())]
        yield count.row(stack)
    yield ""
    yield "Unknown were:"
    yield ""
    yield from (f"- {reason[:200]}" for reason in reasons)
    yield ""
    yield "## Data that was not made for it"
    yield ""
    yield "| data | stack | calls | sizes | compiled | right | unknown | wrong | forecast took | first call took |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for name, make in DATA.items():
        shapes = make()
        for stack in ("jax", "torch"):
            row = held(stack, name, shapes)
            right = row.held.calls - len(row.held.wrong) - len(row.held.unknown)
            yield (
                f"| {name} | {stack} | {row.held.calls} | {len(set(shapes))} | {len(row.held.happened)} | {right} | "
                f"{len(row.held.unknown)} | {len(row.held.wrong)} | {row.foretelling_s:.2f} s | {row.first_s:.2f} s |"
            )
    yield ""
    yield "## Plans that were followed"
    yield ""
    yield "Thirty batches of six lengths, padded by each plan's own code; how often the function then compiled."
    yield ""
    yield "| stack | plan | sizes | padding | compiles foretold | compiled |"
    yield "| --- | --- | --- | ---: | ---: | ---: |"
    chance = random.Random(7)
    shapes = [(2, chance.choice((9, 17, 18, 33, 40, 64))) for _ in range(30)]
    for stack in ("jax", "torch"):
        for kind, plan, compiled in followed(stack, shapes):
            sizes = ", ".join(map(str, plan.buckets)) or "open"
            yield f"| {stack} | {kind} | {sizes} | {100 * plan.padding_share:.0f} % | {plan.compiles} | {compiled} |"
    yield ""
    yield "What padding costs in steady calls, of a function whose work grows with the size (JAX, the best of five"
    yield "rounds; the work without padding is 1):"
    yield ""
    yield "| plan, sizes | work, foretold | steady calls, measured |"
    yield "| --- | ---: | ---: |"
    for kind, foretold, measured in padding():
        yield f"| {kind} | {foretold:.2f} | {measured:.2f} |"
    yield ""
    yield "## What a forecast takes"
    yield ""
    yield "Of 20 calls of one signature. Within a forecast is one abstract trace: JAX's of the function, which JAX"
    yield "keeps for the call; Dynamo's and AOTAutograd's of a copy, which PyTorch makes again. *Beyond* is the rest."
    yield ""
    yield "| stack | forecast | the abstract trace in it | beyond | first step | beyond, of the first step |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for stack, took, traced, first in costs():
        beyond = took - traced
        share = f"{100 * beyond / first:.1f} %"
        yield f"| {stack} | {took:.2f} s | {traced:.2f} s | {beyond:.2f} s | {first:.2f} s | {share} |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    text = []
    for line in page():
        print(line, flush=True)
        text.append(line)
    if asked.output is not None:
        asked.output.write_text("\n".join(text) + "\n")
