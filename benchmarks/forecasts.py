"""What a forecast says against what then happens: every program that provokes a cause, and data not made for it.

`python benchmarks/forecasts.py --output docs/forecast.md` writes the page. The data: functions of Python's own library
as tokens, the sizes of PNG files that are installed here, and the syntax trees of modules as graphs.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import os
import platform
import random
import statistics
import struct
import subprocess
import sys
import sysconfig
import tempfile
import time
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import scenarios  # noqa: E402
from scenarios import foretelling  # noqa: E402

import coldstep  # noqa: E402
from coldstep.analysis.buckets import padded  # noqa: E402
from coldstep.analysis.plans import Plan  # noqa: E402
from coldstep.forecasting import Forecast, each_call  # noqa: E402
from coldstep_collectors._private import jax_signatures  # noqa: E402
from coldstep_collectors._private.torch import rehearsal  # noqa: E402

_CALLS = 60
_RUNS = 5
_ROUNDS = 15
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


def counted(stack: str) -> tuple[Count, list[str]]:
    """A stack's programs, by how their forecasts held; and why some calls are unknown."""
    __import__({"torch": "torch._dynamo"}.get(stack, stack))
    count, reasons = Count(), []
    for path in foretelling.loops() if stack == "torch_xla" else foretelling.programs(stack):
        for row in foretelling.held_in(stack, path):
            count.add(row)
            reasons += [f"{stack}/{path.stem}: {why}" for why in set(row.unknown.values())]
    return count, reasons


def counted_alone(stack: str) -> tuple[Count, list[str]]:
    """The same, by a process of its own, in the stack's environment."""
    python = scenarios.interpreter(stack)
    assert python is not None, scenarios.missing(stack)
    done = subprocess.run([python, __file__, "--count", stack], env=os.environ | {"PJRT_DEVICE": "CPU"},
                          stdout=subprocess.PIPE, text=True, check=True)  # fmt: skip
    told, reasons = json.loads(done.stdout.splitlines()[-1])
    return Count(**told), reasons


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


@dataclass
class Padding:
    """A plan of a function whose work grows with the size: the work, as it was foretold and as the steady calls took
    it, where the work without padding is 1."""

    plan: str
    foretold: float
    measured: list[float]
    """In each round."""


def padding() -> list[Padding]:
    """Some plans, each timed once in every round, so that what else the machine does falls on all of them."""
    import jax
    import jax.numpy as jnp

    chance = random.Random(7)
    lengths = [16 * chance.randint(8, 64) for _ in range(24)]
    weights = jnp.ones((256, 256))

    def score(x: Any) -> Any:
        for _ in range(12):
            x = jnp.tanh(x @ weights)
        return x.sum()

    function = jax.jit(score)
    curve = coldstep.forecast(jax.jit(score), [jnp.ones((length, 256)) for length in lengths]).curves[0]
    plans = [curve.plans[0], *(plan for plan in curve.plans[1:] if len(plan.buckets) <= 4)]
    batches = [[jnp.ones((size, 256)) for size in padded(lengths, plan.buckets)] for plan in plans]
    again = [jnp.ones((length, 256)) for length in lengths]  # the same as it is, timed as a plan of its own
    took: list[list[float]] = []
    for _ in range(_ROUNDS + 1):  # the first compiles
        took.append([])
        for given in (*batches, again):
            began = time.perf_counter()
            jax.block_until_ready([function(x) for x in given])
            took[-1].append(time.perf_counter() - began)
    shares = [[each / alone for each in others] for alone, *others in took[1:]]
    names = [*(f"{plan.kind}, {len(plan.buckets)}" for plan in plans[1:]), "as_it_is again"]
    work = [*(1 / (1 - plan.padding_share) for plan in plans[1:]), 1.0]
    return [Padding(*each) for each in zip(names, work, map(list, zip(*shares, strict=True)), strict=True)]


# --- what it costs ----------------------------------------------------------------------------------------------------


@dataclass
class Cost:
    """Seconds of a forecast, of the abstract traces in it, and of the first step that it foretells."""

    stack: str
    variants: int
    forecast: float
    traced: float
    first: float

    @property
    def beyond(self) -> float:
        return self.forecast - self.traced


def costs() -> Iterator[list[Cost]]:
    """For a model per stack, and numbers of variants: several runs, of which nothing is remembered, on disk or not."""
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
    yield [_cost_in_jax(lambda: jax.jit(step), calls) for _ in range(_RUNS)]

    import torch
    import torch._inductor.config

    layers = [part for _ in range(12) for part in (torch.nn.Linear(256, 256), torch.nn.GELU())]
    model = torch.nn.Sequential(*layers)
    coldstep.forecast(torch.compile(torch.nn.Sequential(torch.nn.GELU())), [torch.ones(8, 256)])
    with torch._inductor.config.patch(force_disable_caches=True):
        for sizes in ([8], [8, 12]):
            inputs = [torch.ones(size, 256) for size in sizes for _ in range(20 // len(sizes))]
            yield [_cost_in_torch(lambda: torch.compile(model), inputs) for _ in range(_RUNS)]


def _cost_in_jax(function: Callable[[], Any], calls: list[Any]) -> Cost:
    foretelling.forget()
    with timed(jax_signatures.Traced, "__init__") as spent:
        began = time.perf_counter()
        coldstep.forecast(function(), calls, feed={"": "params"})
        took = time.perf_counter() - began
    return Cost("jax", 1, took, sum(spent), ran(function(), calls[:2])[1])


def _cost_in_torch(function: Callable[[], Any], calls: list[Any]) -> Cost:
    foretelling.forget()
    with timed(rehearsal.Rehearsal, "judge") as spent:
        began = time.perf_counter()
        told = coldstep.forecast(function(), calls)
        took = time.perf_counter() - began
    traced = sum(spent[row.call] for row in told.compiles)
    return Cost("torch", len(told.compiles), took, traced, ran(function(), calls[:2])[1])


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
    yield f"{platform.python_version()}; torch_xla in an environment of its own. 2 cores that did other work, too."
    yield ""
    yield "## Every program whose cause a call's arguments show"
    yield ""
    yield "Each program of `tests/scenarios` in which something compiles again for a cause that stands in the arguments"
    yield "runs once with its calls taken down; then they are judged, by functions compiled anew. *Right*: a call that"
    yield "compiles was foretold, one that does not was not. *Other words*: compiles that were foretold rightly, but"
    yield "whose cause, argument, before or after is another than the run's report says. torch_xla's steps are bodies"
    yield "of loops, made a function each; of those, also where an optimizer's state or nothing is the cause."
    yield ""
    yield "| stack | calls | right | unknown | wrong | other words |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    reasons: list[str] = []
    whole = Count()
    for stack in ("jax", "torch", "tensorflow", "torch_xla"):
        count, why = counted_alone(stack)
        reasons += why
        for name, number in asdict(count).items():
            setattr(whole, name, getattr(whole, name) + number)
        yield count.row(stack)
    yield whole.row("all")
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
    yield "What padding costs in steady calls, of a function whose work grows with the size (JAX; the work without"
    yield f"padding is 1; median, and the middle half, of {_ROUNDS} rounds, each of all plans). A plan takes the work"
    yield "to grow with the size alone: what a call takes whatever its size, or what a size does well, is not in it."
    yield "*as_it_is again* is the first row's calls once more: what differs there is the machine's."
    yield ""
    yield "| plan, sizes | work, foretold | steady calls, measured | middle half | off by |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for row in padding():
        low, middle, high = statistics.quantiles(row.measured, n=4)
        off = f"{100 * (middle / row.foretold - 1):+.0f} %"
        yield f"| {row.plan} | {row.foretold:.2f} | {middle:.2f} | {low:.2f} to {high:.2f} | {off} |"
    yield ""
    yield "## What a forecast takes"
    yield ""
    yield f"Of 20 calls; {_RUNS} runs each, from caches that are empty: the median, and the worst. Within a forecast"
    yield "is an abstract trace: JAX's one of the function, which JAX keeps for the call; Dynamo's and AOTAutograd's of"
    yield "a copy, one for each variant, which PyTorch makes again. *Beyond* is the rest."
    yield ""
    yield "| stack | variants | forecast | traces in it | beyond | worst | first step | beyond, of that | worst |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for runs in costs():
        beyond = [run.beyond for run in runs]
        share = [100 * run.beyond / run.first for run in runs]
        forecast, traced, first = (
            statistics.median(getattr(run, name) for run in runs) for name in ("forecast", "traced", "first")
        )
        yield (
            f"| {runs[0].stack} | {runs[0].variants} | {forecast:.2f} s | {traced:.2f} s | "
            f"{statistics.median(beyond):.3f} s | {max(beyond):.3f} s | {first:.2f} s | "
            f"{statistics.median(share):.1f} % | {max(share):.1f} % |"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--count", metavar="STACK", help="print how the forecasts of a stack held, as JSON, and end")
    asked = parser.parse_args()
    if asked.count:
        count, reasons = counted(asked.count)
        print(json.dumps([asdict(count), reasons]))
        sys.exit()
    text = []
    for line in page():
        print(line, flush=True)
        text.append(line)
    if asked.output is not None:
        asked.output.write_text("\n".join(text) + "\n")
